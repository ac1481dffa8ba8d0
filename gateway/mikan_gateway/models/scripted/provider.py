"""The scripted model as a provider: a planned turn as a stream of chunks."""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from pydantic_core import to_json

from mikan_gateway.models.chat import (
    CHARACTERS_PER_TOKEN,
    ChatRequest,
    Chunk,
    JsonObject,
    Usage,
    estimate_prompt_tokens,
)
from mikan_gateway.models.chunks import ChunkWriter
from mikan_gateway.models.exceptions import CallRefused, UpstreamCut
from mikan_gateway.models.pricing import Price
from mikan_gateway.models.scripted.player import Turn, plan_turn
from mikan_gateway.models.scripted.script import Script

MAX_TEXT_CHUNKS = 200
"""A long text is sent in bigger pieces rather than in more of them."""
ARGUMENT_PIECE = 24
"""Characters of a tool call's arguments in one chunk."""
_WORD = re.compile(r"\s*\S+\s*")


@dataclass(frozen=True, slots=True)
class ScriptedProvider:
    """Plays scripts. `clock` and `sleep` are replaced in tests."""

    scripts: Mapping[str, Script]
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Chunk, None]:
        """Play the next turn."""
        script = self.scripts.get(request.model)
        if script is None:
            known = ", ".join(f"{request.provider}/{name}" for name in sorted(self.scripts))
            raise CallRefused(
                404, "invalid_request_error", "model_not_found", f"no script {request.model!r}; known: {known}"
            )
        turn = plan_turn(script, request)
        if turn.error:
            raise turn.error
        writer = ChunkWriter(_answer_id(request), int(self.clock()), request.model)
        for delta in _deltas(turn, writer.id):
            if turn.delay_seconds:
                await self.sleep(turn.delay_seconds)
            yield writer.delta(delta)
        if turn.cut:
            raise UpstreamCut("the script breaks its answer off here")
        end = writer.delta({}, "tool_calls" if turn.calls else "stop")
        yield Chunk(end.data, finished=True, usage=_usage(turn, request))

    def price(self, model: str, usage: Usage) -> Price | None:
        """Scripts are free; a configured price may say otherwise."""
        return None

    def window(self, model: str) -> int | None:
        """Scripts read as much as they are given; a configured window may say otherwise."""
        return None


def _answer_id(request: ChatRequest) -> str:
    """The same for the same messages, another for each turn of a conversation."""
    digest = hashlib.sha256(to_json([request.model, request.messages])).hexdigest()
    return f"chatcmpl-scripted-{digest[:16]}"


def _deltas(turn: Turn, answer_id: str) -> Iterator[JsonObject]:
    yield {"role": "assistant", "content": ""}
    for piece in pieces(turn.thinking):
        yield {"reasoning_content": piece}
    for piece in pieces(turn.text):
        yield {"content": piece}
    for number in range(1, turn.tokens + 1):
        yield {"content": f"{number} "}
    for index, call in enumerate(turn.calls):
        call_id = f"call_{answer_id.rpartition('-')[2]}_{index}"
        function = {"name": call.tool, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}
        arguments = to_json(call.arguments).decode()
        for start in range(0, len(arguments), ARGUMENT_PIECE):
            piece = arguments[start : start + ARGUMENT_PIECE]
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def pieces(text: str) -> Iterator[str]:
    """A text cut at words, in at most `MAX_TEXT_CHUNKS` pieces."""
    words = _WORD.findall(text) or ([text] if text else [])
    together = -(-len(words) // MAX_TEXT_CHUNKS)
    for start in range(0, len(words), together or 1):
        yield "".join(words[start : start + together])


def _usage(turn: Turn, request: ChatRequest) -> Usage:
    characters = len(turn.text) + len(turn.thinking)
    characters += sum(len(call.tool) + len(to_json(call.arguments)) for call in turn.calls)
    return Usage(
        prompt=estimate_prompt_tokens(request), completion=-(-characters // CHARACTERS_PER_TOKEN) + turn.tokens
    )
