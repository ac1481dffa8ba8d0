"""An upstream that speaks the OpenAI form already: its events are passed on as they come.

Nothing is translated and little is parsed: an event is looked into only where it seems to hold usage, a finish or an
error. That is what keeps the overhead at a few milliseconds where a translation costs 25.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

import httpx
from pydantic_core import from_json, to_json

from mikan_gateway.models.chat import ChatRequest, Chunk, JsonObject, Usage, plain_messages
from mikan_gateway.models.config import ProviderEntry
from mikan_gateway.models.exceptions import CallFailed, UpstreamCut, UpstreamFailed
from mikan_gateway.models.pricing import Price, read_usage
from mikan_gateway.models.providers.upstream import Refusals

MAX_EVENT = 16 * 1024 * 1024
MAX_ERROR_BODY = 64 * 1024
CONNECT_SECONDS = 10.0
DRAIN_SECONDS = 0.2
_TELLING = re.compile(rb'"usage"\s*:\s*\{|"finish_reason"\s*:\s*"|"error"\s*:\s*[{"]')
"""Inside a JSON string these quotes would be escaped, so text of the model never looks like it."""
_LEVELS = {"max": "xhigh"}


class OpenAIProvider:
    """Passes calls through to one base URL."""

    def __init__(self, name: str, entry: ProviderEntry, key: str | None, client: httpx.AsyncClient) -> None:
        self._name = name
        self._url = f"{(entry.api_base or '').rstrip('/')}/chat/completions"
        self._headers = dict(entry.headers) | {"content-type": "application/json", "accept-encoding": "identity"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        # How long to wait in all is the caller's; these keep a dead connection from being waited for longer.
        silence = max(entry.timeout_seconds, entry.idle_timeout_seconds) + 5
        self._timeout = httpx.Timeout(silence, connect=CONNECT_SECONDS)
        self._client = client
        self._refusals = Refusals(name, [*filter(None, [key]), *entry.headers.values()])

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Chunk, None]:
        """Ask, and pass on what comes."""
        call = self._client.stream(
            "POST", self._url, content=build_body(request), headers=self._headers, timeout=self._timeout
        )
        began = False
        try:
            async with call as response:
                if response.status_code != 200:
                    raise await self._refusal(response)
                async with aclosing(events(response.aiter_bytes())) as lines:
                    async for data in lines:
                        if data == b"[DONE]":
                            await _drain(lines)
                            return
                        yield self._chunk(data)
                        began = True
        except httpx.HTTPError as error:
            if began:
                raise UpstreamCut(f"the stream of {self._name} broke off ({type(error).__name__})") from None
            raise self._refusals.unreachable(error) from None

    def price(self, model: str, usage: Usage) -> Price | None:
        """Only the configuration knows prices of such an upstream."""
        return None

    def window(self, model: str) -> int | None:
        """Only the configuration knows windows of such an upstream."""
        return None

    def _chunk(self, data: bytes) -> Chunk:
        if not data or not _TELLING.search(data):
            return Chunk(data)
        try:
            raw = from_json(data)
        except ValueError:
            raise UpstreamCut(f"{self._name} sent an event that is not JSON", "bad_event") from None
        if not isinstance(raw, dict):
            raise UpstreamCut(f"{self._name} sent an event that is not an object", "bad_event")
        if "error" in raw and not raw.get("choices"):
            raise self._error_event(raw["error"])
        return read_chunk(raw, data)

    def _error_event(self, error: Any) -> CallFailed:
        code, message = error_fields({"error": error})
        status = error.get("code") if isinstance(error, dict) else None
        return self._refusals.refused(status if isinstance(status, int) else 500, code, message)

    async def _refusal(self, response: httpx.Response) -> UpstreamFailed:
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_ERROR_BODY:
                break
        try:
            code, message = error_fields(from_json(bytes(body)))
        except ValueError:
            code, message = "", "an error without a readable body"
        return self._refusals.refused(response.status_code, code, message, response.headers.get("retry-after"))


async def _drain(lines: AsyncGenerator[bytes, None]) -> None:
    """Read the end of a body, so that its connection can be used again; one that has no end is given up."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in lines:
                continue


def build_body(request: ChatRequest) -> bytes:
    """The request for the upstream: always streamed, always with usage."""
    body: JsonObject = {"model": request.model, "messages": plain_messages(request.messages)}
    body |= request.options
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.thinking != "off":
        body["reasoning_effort"] = _LEVELS.get(request.thinking, request.thinking)
    return to_json(body)


def read_chunk(raw: JsonObject, data: bytes) -> Chunk:
    """A chunk that was parsed. Usage is taken out: the last chunk of all will have it, with its price."""
    choices = [choice for choice in raw.get("choices") or () if isinstance(choice, dict)]
    finished = any(choice.get("finish_reason") for choice in choices)
    if not isinstance(usage := raw.get("usage"), dict):
        return Chunk(data, finished)
    left = to_json({k: v for k, v in raw.items() if k != "usage"}) if choices else b""
    return Chunk(left, finished, read_usage(usage))


def error_fields(body: Any) -> tuple[str, str]:
    """Code and message of an error in the OpenAI form, or in one of the forms near it."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return "", str(error)
    code = error.get("code")
    return code if isinstance(code, str) else "", str(error.get("message") or error.get("detail") or "")


async def events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The data of each server-sent event; a comment comes as an empty one. Line ends may be LF, CRLF or CR LF mixed.

    An event that is not closed by an empty line is not one: it is left out, and the stream counts as cut.
    """
    pending = bytearray()
    data: list[bytes] = []
    async for piece in pieces:
        pending += piece
        if len(pending) > MAX_EVENT:
            raise UpstreamCut("the upstream sent an event that is too long", "bad_event")
        *lines, rest = pending.split(b"\n")
        pending = rest
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                data.append(bytes(line[5:].strip()))
            elif line.startswith(b":"):
                yield b""
            elif not line and data:
                yield b"\n".join(data)
                data = []
