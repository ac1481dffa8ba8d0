"""Server-sent events, as far as a chat completion stream uses them: the payloads of its ``data`` lines.

Source: WHATWG HTML, section 9.2.6 "Interpreting an event stream". Event names, ids and comments are passed over.
"""

from collections.abc import AsyncGenerator, AsyncIterator

from mikan_agent.exceptions import ModelUnreachable

MAX_EVENT = 8 * 1024 * 1024
"""Bytes of one event; a longer one is no answer of a model."""


async def data_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """The data of each event, in order.

    Raises:
        ModelUnreachable: an event longer than `MAX_EVENT`, or one that is not UTF-8.
    """
    buffer = bytearray()
    data: list[str] = []
    async for chunk in chunks:
        buffer += chunk
        if len(buffer) > MAX_EVENT:
            raise ModelUnreachable("the model's stream holds an event beyond any measure")
        *lines, rest = buffer.split(b"\n")
        buffer = rest
        for line in lines:
            text = _decoded(line.removesuffix(b"\r"))
            if text.startswith("data:"):
                data.append(text[5:].removeprefix(" "))
            elif not text and data:
                yield "\n".join(data)
                data = []


def _decoded(line: bytes | bytearray) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise ModelUnreachable("the model's stream is not UTF-8") from None
