"""Pass-through of the OpenAI form."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from mikan_gateway.models.chat import ChatRequest, Chunk, Usage
from mikan_gateway.models.config import ProviderEntry
from mikan_gateway.models.exceptions import UpstreamCut, UpstreamFailed
from mikan_gateway.models.providers.openai import OpenAIProvider, build_body, events

ASK = ChatRequest("up", "gpt", [{"role": "user", "content": "hi", "reasoning_content": "x"}], options={"seed": 1})
TEXT = b'{"id":"1","choices":[{"index":0,"delta":{"content":"\\"usage\\": {"},"finish_reason":null}],"usage":null}'
END = b'{"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'


class Pieces(httpx.AsyncByteStream):
    """A body in pieces; an exception among them breaks it off."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece


def provider(answer: Callable[[httpx.Request], httpx.Response], **entry: Any) -> OpenAIProvider:
    fields = {"kind": "openai", "api_base": "http://up/v1/", "headers": {"x-team": "blue"}} | entry
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return OpenAIProvider("up", ProviderEntry(**fields), "sk-secret-key", client)


def playing(*pieces: bytes | Exception) -> OpenAIProvider:
    return provider(lambda request: httpx.Response(200, stream=Pieces(*pieces)))


async def take(source: OpenAIProvider) -> list[Chunk]:
    return [chunk async for chunk in source.stream(ASK)]


def event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


async def test_events_pass_as_they_are_and_usage_is_taken_out() -> None:
    said = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    usage = json.dumps({"id": "1", "choices": [], "usage": said}).encode()

    got = await take(playing(event(TEXT), event(END), event(usage), b"data: [DONE]\n\n"))

    assert got == [
        Chunk(TEXT),
        Chunk(END, finished=True),
        Chunk(b"", usage=Usage(prompt=9, completion=2, cached=4)),
    ]


async def test_usage_in_the_chunk_of_the_finish_is_taken_out_of_it() -> None:
    both = b'{"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}'

    assert await take(playing(event(both))) == [Chunk(END, finished=True, usage=Usage(prompt=3))]


async def test_the_request_is_rebuilt_and_carries_the_providers_own_headers() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, stream=Pieces(event(END)))

    await take(provider(answer))

    (request,) = seen
    assert str(request.url) == "http://up/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-secret-key"
    assert request.headers["x-team"] == "blue"
    assert json.loads(request.content) == {
        "model": "gpt",
        "messages": [{"role": "user", "content": "hi"}],
        "seed": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    ("level", "sent"), [("off", None), ("minimal", "minimal"), ("xhigh", "xhigh"), ("max", "xhigh")]
)
def test_thinking_is_said_in_the_upstreams_words(level: str, sent: str | None) -> None:
    body = json.loads(build_body(ChatRequest("up", "gpt", ASK.messages, thinking=level)))

    assert body.get("reasoning_effort") == sent


async def test_a_refusal_keeps_status_code_message_and_wait() -> None:
    body = {"error": {"message": "slow down", "type": "rate_limit_error", "code": None}}

    with pytest.raises(UpstreamFailed) as caught:
        await take(provider(lambda r: httpx.Response(429, json=body, headers={"retry-after": "7"})))

    error = caught.value
    assert (error.status, error.code, error.message, error.retry_after) == (
        429,
        "rate_limit_exceeded",
        "up: slow down",
        "7",
    )


async def test_a_refusal_without_a_readable_body_still_says_something() -> None:
    with pytest.raises(UpstreamFailed, match="up: an error without a readable body"):
        await take(provider(lambda r: httpx.Response(502, content=b"<html>")))


async def test_a_connection_that_breaks_in_the_middle_is_a_cut() -> None:
    with pytest.raises(UpstreamCut, match="the stream of up broke off \\(RemoteProtocolError\\)"):
        await take(playing(event(TEXT), httpx.RemoteProtocolError("peer closed")))


async def test_no_connection_is_an_unreachable_upstream() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(UpstreamFailed) as caught:
        await take(provider(answer))

    assert (caught.value.status, caught.value.code) == (502, "upstream_unreachable")


async def test_an_error_event_in_the_stream_is_an_error() -> None:
    with pytest.raises(UpstreamFailed, match="up: overloaded"):
        await take(playing(event(TEXT), event(b'{"error": {"message": "overloaded"}}')))


async def test_an_event_that_is_no_json_where_it_matters_is_a_cut() -> None:
    with pytest.raises(UpstreamCut, match="up sent an event that is not JSON"):
        await take(playing(event(b'{"finish_reason": "stop"')))


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_events_are_found_however_the_bytes_are_cut(size: int) -> None:
    raw = b'event: x\ndata: {"a":1}\n\n: ping\r\ndata: {"b":\r\ndata: 2}\r\n\r\nid: 4\n\ndata: left over'

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(raw), size):
            yield raw[start : start + size]

    assert [data async for data in events(pieces())] == [b'{"a":1}', b"", b'{"b":\n2}']
