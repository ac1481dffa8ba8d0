"""One model call from admission to its last chunk: cap, slot, time limits, price, account.

The one place that knows when a call ends and what it then counts for, also when the client went away or the upstream
cut it: an office cannot spend unseen by hanging up early.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from pydantic_core import from_json

from mikan_api.identity import OfficeKey
from mikan_gateway.models.catalog import Catalog
from mikan_gateway.models.chat import ChatRequest, Chunk, Usage, estimate_prompt_tokens
from mikan_gateway.models.chunks import ChunkWriter
from mikan_gateway.models.exceptions import CallFailed, CallRefused, UpstreamCut, UpstreamFailed
from mikan_gateway.models.metrics import Metrics
from mikan_gateway.models.pricing import usage_object
from mikan_gateway.models.slots import Slots
from mikan_gateway.models.spending import Cap, Spending

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Account:
    """What is known of a call so far."""

    started: float
    first: float | None = None
    usage: Usage | None = None
    chunks: int = 0
    finished: bool = False
    last: bytes = b""
    outcome: str = "cancelled"

    def take(self, chunk: Chunk, clock: Callable[[], float]) -> None:
        """Note what a chunk tells."""
        self.usage = chunk.usage or self.usage
        self.finished = self.finished or chunk.finished
        if chunk.data:
            self.first = clock() if self.first is None else self.first
            self.last = chunk.data
            self.chunks += 1

    def counted(self, request: ChatRequest) -> Usage:
        """What the upstream said, else an estimate: a chunk is about a token, and no chunk cost nothing."""
        if self.usage is not None:
            return self.usage
        if not self.chunks:
            return Usage(estimated=True)
        return Usage(prompt=estimate_prompt_tokens(request), completion=self.chunks, estimated=True)


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """Answers calls. ``catalog`` and ``cap`` give what holds now; ``clock`` is monotonic seconds."""

    catalog: Callable[[], Catalog | None]
    cap: Callable[[], Cap | None]
    spending: Spending
    slots: Slots
    metrics: Metrics
    clock: Callable[[], float] = field(default=time.monotonic)

    async def stream(self, office: OfficeKey, request: ChatRequest) -> AsyncGenerator[bytes, None]:
        """Chunks of the answer as JSON, the last one with usage and cost; an empty one is a sign of life.

        Raises:
            CallFailed: before the first chunk as a rule; `UpstreamCut` after it.
        """
        catalog = self.current()
        provider = catalog.provider(request.provider)
        entry = catalog.entry(request.provider, request.model)
        if entry is not None and not entry.thinking:
            request = request.without_thinking()
        self.spending.check(office, self.cap())
        with self.slots.hold(office, catalog.config.limits):
            account = _Account(self.clock())
            self.metrics.running.inc()
            try:
                async with aclosing(_timed(catalog, request, provider.stream(request))) as chunks:
                    async for chunk in chunks:
                        account.take(chunk, self.clock)
                        if chunk.data or chunk.usage is None:
                            yield chunk.data
                if not account.finished:
                    raise UpstreamCut(f"the stream of {request.provider}/{request.model} ended without a finish")
                account.outcome = "ok"
                yield _last_chunk(catalog, request, account)
            except CallFailed as error:
                account.outcome = error.code
                raise
            except Exception:
                account.outcome = "internal_error"
                raise
            finally:
                self.metrics.running.dec()
                self._settle(catalog, office, request, account)

    def current(self) -> Catalog:
        """The catalog that holds now.

        Raises:
            CallRefused: 503; there never was a good one.
        """
        catalog = self.catalog()
        if catalog is None:
            raise CallRefused(
                503,
                "server_error",
                "not_configured",
                "models.json cannot be used; an admin finds the reason at /readyz",
            )
        return catalog

    def _settle(self, catalog: Catalog, office: OfficeKey, request: ChatRequest, account: _Account) -> None:
        usage = account.counted(request)
        price = catalog.price(request.provider, request.model, usage)
        usd = price.cost(usage) if price else 0.0
        self.spending.add(office, usd)
        now = self.clock()
        first = None if account.first is None else account.first - account.started
        labels = self.metrics.labels(request.provider, request.model, succeeded=account.outcome == "ok")
        self.metrics.ended(labels, account.outcome, usage, usd, first, now - account.started)
        logger.info(
            "model call ended",
            extra={
                "office": office,
                "model": f"{request.provider}/{request.model}",
                "outcome": account.outcome,
                "prompt_tokens": usage.prompt,
                "completion_tokens": usage.completion,
                "cost_usd": round(usd, 6),
                "seconds": round(now - account.started, 3),
            },
        )


async def _timed(
    catalog: Catalog, request: ChatRequest, chunks: AsyncGenerator[Chunk, None]
) -> AsyncGenerator[Chunk, None]:
    """The same chunks, unless the next one takes too long."""
    entry = catalog.config.providers[request.provider]
    loop = asyncio.get_running_loop()
    end = loop.time() + catalog.config.limits.call_seconds
    name = f"{request.provider}/{request.model}"
    wait, began = entry.timeout_seconds, False
    async with aclosing(chunks) as source:
        while True:
            try:
                async with asyncio.timeout_at(min(loop.time() + wait, end)):
                    chunk = await anext(source, None)
            except TimeoutError:
                if began:
                    raise UpstreamCut(f"{name} fell silent in the middle of its answer", "upstream_timeout") from None
                message = f"{name} did not begin to answer within {wait:g} s; try again"
                raise UpstreamFailed(504, "upstream_error", "upstream_timeout", message) from None
            if chunk is None:
                return
            yield chunk
            wait, began = entry.idle_timeout_seconds, True


def _last_chunk(catalog: Catalog, request: ChatRequest, account: _Account) -> bytes:
    usage = account.counted(request)
    price = catalog.price(request.provider, request.model, usage)
    said = from_json(account.last)
    writer = ChunkWriter(
        str(said.get("id", "")), int(said.get("created") or 0), str(said.get("model") or request.model)
    )
    return writer.usage(usage_object(usage, price))
