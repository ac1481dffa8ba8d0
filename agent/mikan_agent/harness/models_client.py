"""The models process as the harness sees it: one streamed chat completion at a time, errors told apart.

Plain OpenAI form over HTTP; which provider is behind it, with which key, is not known here. One owner of the question
whether a failure may be cured by a repeat (`ModelError.transient`); when to repeat is `harness.turn`'s.
"""

import asyncio
import json
import logging
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol
from urllib.parse import quote

from mikan_agent.exceptions import (
    ContextOverflow,
    ModelError,
    ModelKeyRefused,
    ModelOverloaded,
    ModelRequestRefused,
    ModelUnknown,
    ModelUnreachable,
    ServiceSilent,
    ServiceUnreachable,
    SpendingCapReached,
    TokenUnreadable,
)
from mikan_agent.harness.completion import Completion, StreamedError
from mikan_agent.harness.sse import data_events
from mikan_agent.http_client import HttpClient, Response
from mikan_agent.tokens import TokenSource, bearer
from mikan_api.logs import mask
from mikan_api.settings import Llm, ThinkingLevel

logger = logging.getLogger(__name__)

SILENCE_TIMEOUT = 60.0
"""Seconds without a byte after which a stream counts as cut; the models process sends signs of life three times as
often."""
DRAIN_TIMEOUT = 0.2
WINDOW = 128_000
"""Tokens of a model's context, where nobody knows better."""
AT_ONCE = 20
"""Events that are taken before others have their turn."""
MAX_BODY = 64 * 1024
"""Bytes of an answer that is no stream."""

_BY_CODE: dict[str, type[ModelError]] = {
    "context_length_exceeded": ContextOverflow,
    "insufficient_quota": SpendingCapReached,
    "invalid_api_key": ModelKeyRefused,
    "invalid_office_token": ModelKeyRefused,
    "model_not_found": ModelUnknown,
    "office_cap_exceeded": SpendingCapReached,
    "office_gone": ModelKeyRefused,
    "overloaded_error": ModelOverloaded,
    "provider_key_refused": ModelKeyRefused,
    "rate_limit_exceeded": ModelOverloaded,
    "server_error": ModelOverloaded,
    "stream_cut": ModelUnreachable,
    "upstream_cut": ModelUnreachable,
    "upstream_timeout": ModelUnreachable,
    "upstream_unreachable": ModelUnreachable,
}
_BY_STATUS: dict[int, type[ModelError]] = {
    401: ModelKeyRefused,
    402: SpendingCapReached,
    403: ModelKeyRefused,
    404: ModelUnknown,
    408: ModelUnreachable,
    413: ContextOverflow,
    425: ModelOverloaded,
    429: ModelOverloaded,
}


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request: everything in OpenAI form already, and the messages encoded."""

    llm: Llm
    messages: Sequence[bytes]
    tools: list[dict[str, Any]]

    def body(self) -> bytes:
        """The request's body."""
        options: dict[str, Any] = {
            "model": self.llm.model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.tools:
            options["tools"] = self.tools
        if self.llm.thinking_level is not ThinkingLevel.OFF:
            options["reasoning_effort"] = self.llm.thinking_level.value
        return json.dumps(options).encode()[:-1] + b', "messages": [' + b",".join(self.messages) + b"]}"


class ModelClient(Protocol):
    """Answers model calls."""

    async def stream(self, call: ModelCall, into: Completion) -> None:
        """Feed an answer into ``into`` as it comes, to its end.

        Raises:
            ModelError: no answer, or only part of one.
        """

    async def window(self, model: str) -> int:
        """A model's context window in tokens; a usual one where nobody knows it."""


class HttpModelClient:
    """The models process at a base URL. Keeps connections open between calls."""

    def __init__(self, base_url: str, token: TokenSource, silence: float = SILENCE_TIMEOUT) -> None:
        self._token = token
        self._client = HttpClient(base_url, silence)
        self._windows: dict[str, int] = {}

    async def stream(self, call: ModelCall, into: Completion) -> None:
        """Feed an answer into ``into`` as it comes, to its end.

        Raises:
            ModelError: no answer, or only part of one.
        """
        try:
            headers = await bearer(self._token) | {"Content-Type": "application/json"}
            async with self._client.request("POST", "/v1/chat/completions", headers, call.body()) as response:
                if response.status != 200:
                    raise await _refusal(response)
                await _consume(response, into)
        except TokenUnreadable as error:
            raise ModelKeyRefused(str(error)) from None
        except ServiceSilent as error:
            raise ModelUnreachable(f"the models service is silent ({error})") from None
        except ServiceUnreachable as error:
            raise ModelUnreachable(f"no connection to the models service ({error})") from None

    async def window(self, model: str) -> int:
        """A model's context window in tokens; a usual one where nobody knows it. Asked once for each model."""
        if model not in self._windows:
            try:
                headers = await bearer(self._token)
                async with self._client.request("GET", f"/v1/models/{quote(model)}", headers) as response:
                    body = await response.read(MAX_BODY)
                    told = json.loads(body).get("contextWindow") if response.status == 200 else None
            except (ServiceUnreachable, ValueError, AttributeError, TokenUnreadable) as error:
                logger.warning("a model's window is not known", extra={"model": model, "reason": type(error).__name__})
                return WINDOW
            self._windows[model] = told if isinstance(told, int) and told > 0 else WINDOW
        return self._windows[model]

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()


async def _consume(response: Response, into: Completion) -> None:
    events = data_events(response.chunks())
    taken = 0
    try:
        async for data in events:
            if data == "[DONE]":
                await _drain(events)
                break
            try:
                into.feed(data)
            except StreamedError as error:
                raise _model_error(0, error.body, {}) from None
            taken += 1
            if taken % AT_ONCE == 0:
                # A fast server must not keep the loop from cancelling, pinging and showing what came.
                await asyncio.sleep(0)
    finally:
        await events.aclose()
    if not into.finished:
        raise ModelUnreachable("the model's answer was cut off")


async def _drain(events: AsyncGenerator[str, None]) -> None:
    """Read the end of a body, so that its connection serves the next call; one that has no end is given up."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_TIMEOUT):
            async for _ in events:
                continue


async def _refusal(response: Response) -> ModelError:
    raw = await response.read(MAX_BODY)
    try:
        parsed = json.loads(raw)
    except ValueError:
        parsed = {}
    body = parsed.get("error") if isinstance(parsed, dict) else None
    return _model_error(response.status, body if isinstance(body, dict) else {}, response.headers)


def _model_error(status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> ModelError:
    code, kind = str(body.get("code") or ""), str(body.get("type") or "")
    family = _BY_CODE.get(code) or _BY_CODE.get(kind) or _BY_STATUS.get(status)
    if family is None:
        transient = status >= 500 or (status == 0 and not code.startswith("invalid"))
        family = ModelOverloaded if transient else ModelRequestRefused
    message = mask(str(body.get("message") or ""))[:1000] or (f"HTTP {status}" if status else "an error in the stream")
    return family(message, wait_asked_for(headers.get("retry-after"), datetime.now(UTC)))


def wait_asked_for(value: str | None, now: datetime) -> float | None:
    """Seconds of a ``retry-after``, which is a number of them or a date (RFC 9110, section 10.2.3)."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value).astimezone(UTC) - now).total_seconds()
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None
