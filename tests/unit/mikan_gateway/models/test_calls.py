"""One call from admission to account."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic_core import from_json

from mikan_gateway.models.calls import ModelCalls
from mikan_gateway.models.catalog import Catalog
from mikan_gateway.models.chat import ChatRequest, Chunk, Usage
from mikan_gateway.models.config import ModelEntry, ModelsConfig, ProviderEntry
from mikan_gateway.models.exceptions import CallFailed, CallRefused, UpstreamCut, UpstreamFailed
from mikan_gateway.models.metrics import Metrics
from mikan_gateway.models.pricing import Price
from mikan_gateway.models.slots import Slots
from mikan_gateway.models.spending import Cap, Spending
from models_service import OFFICE

TEXT = Chunk(b'{"id":"c1","created":7,"model":"m-1","choices":[{"delta":{"content":"hi"}}]}')
END = Chunk(b'{"id":"c1","created":7,"model":"m-1","choices":[{"delta":{},"finish_reason":"stop"}]}', finished=True)
USAGE = Chunk(b"", usage=Usage(prompt=1_000_000, completion=100_000, cached=500_000))
ASK = ChatRequest("up", "m", [{"role": "user", "content": "x" * 400}])


class FakeProvider:
    """Plays chunks; an error among them is raised, ``None`` waits for ever."""

    def __init__(self, *chunks: Chunk | CallFailed | None) -> None:
        self.chunks = chunks
        self.closed = False
        self.asked: list[ChatRequest] = []

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Chunk, None]:
        self.asked.append(request)
        try:
            for chunk in self.chunks:
                if chunk is None:
                    await asyncio.Event().wait()
                elif isinstance(chunk, CallFailed):
                    raise chunk
                else:
                    yield chunk
        finally:
            self.closed = True

    def price(self, model: str, usage: Usage) -> Price | None:
        return None

    def window(self, model: str) -> int | None:
        return None


def calls(provider: FakeProvider, cap: Cap | None = None, priced: bool = True, **entry: Any) -> ModelCalls:
    prices = {"input_usd_per_million": 2.0, "output_usd_per_million": 10.0} if priced else {}
    model = ModelEntry(**prices, thinking=entry.pop("thinking", True))
    limits = entry.pop("limits", {})
    config = ModelsConfig.model_validate(
        {
            "limits": limits,
            "providers": {"up": ProviderEntry(kind="openai", api_base="http://x", models={"m": model}, **entry)},
        }
    )
    catalog = Catalog(config, {"up": provider}, {})
    return ModelCalls(
        lambda: catalog, lambda: cap, Spending(lambda: 0.0), Slots(), Metrics(CollectorRegistry()), lambda: 0.0
    )


async def take(service: ModelCalls, request: ChatRequest = ASK) -> Sequence[bytes]:
    return [data async for data in service.stream(OFFICE, request)]


def outcome(service: ModelCalls, name: str, model: str = "m") -> float | None:
    labels = {"provider": "up", "model": model, "outcome": name}
    return service.metrics.registry.get_sample_value("mikan_models_calls_total", labels)


async def test_the_last_chunk_has_usage_and_cost_and_the_envelope_of_the_others() -> None:
    service = calls(FakeProvider(TEXT, END, USAGE))

    *chunks, last = await take(service)

    assert chunks == [TEXT.data, END.data]
    said = from_json(last)
    assert (said["id"], said["created"], said["model"], said["choices"]) == ("c1", 7, "m-1", [])
    assert (said["usage"]["cost_usd"], said["usage"]["priced"]) == (3.0, True)
    assert service.spending.spent(OFFICE, 24) == 3.0
    assert outcome(service, "ok") == 1


async def test_without_a_known_price_the_cost_is_0_and_says_so() -> None:
    *_, last = await take(calls(FakeProvider(TEXT, END, USAGE), priced=False))

    assert from_json(last)["usage"]["cost_usd"] == 0
    assert from_json(last)["usage"]["priced"] is False


async def test_usage_that_the_upstream_does_not_give_is_estimated() -> None:
    *_, last = await take(calls(FakeProvider(TEXT, TEXT, END)))

    usage = from_json(last)["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["estimated"]) == (100, 3, True)


async def test_a_stream_that_ends_without_a_finish_is_a_cut_and_is_paid_for() -> None:
    service = calls(FakeProvider(TEXT))

    with pytest.raises(UpstreamCut, match="ended without a finish"):
        await take(service)

    assert service.spending.spent(OFFICE, 24) == pytest.approx((100 * 2 + 1 * 10) / 1e6)
    assert outcome(service, "stream_cut", "other") == 1


async def test_a_call_that_is_dropped_by_its_client_closes_the_upstream_and_is_paid_for() -> None:
    provider = FakeProvider(TEXT, None)
    service = calls(provider)

    answer = service.stream(OFFICE, ASK)
    assert await anext(answer) == TEXT.data
    assert service.slots.taken == 1
    await answer.aclose()

    assert provider.closed
    assert service.slots.taken == 0
    assert service.spending.spent(OFFICE, 24) > 0
    assert outcome(service, "cancelled", "other") == 1


async def test_a_refused_call_costs_nothing() -> None:
    service = calls(FakeProvider(UpstreamFailed(429, "rate_limit_error", "rate_limit_exceeded", "slow down", "3")))

    with pytest.raises(UpstreamFailed, match="slow down"):
        await take(service)

    assert service.spending.spent(OFFICE, 24) == 0
    assert service.slots.taken == 0


async def test_an_office_over_its_cap_reaches_no_provider() -> None:
    provider = FakeProvider(TEXT, END, USAGE)
    service = calls(provider, Cap(3, 24))
    await take(service)

    with pytest.raises(CallRefused, match="its cap of 3 USD"):
        await take(service)

    assert len(provider.asked) == 1


async def test_calls_over_the_offices_share_are_refused() -> None:
    service = calls(FakeProvider(TEXT, None), limits={"callsPerOffice": 1})
    running = service.stream(OFFICE, ASK)
    await anext(running)

    with pytest.raises(CallRefused) as caught:
        await take(service)

    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (429, "too_many_calls", "1")
    await running.aclose()


async def test_a_model_that_cannot_think_is_not_asked_to() -> None:
    provider = FakeProvider(TEXT, END)
    await take(calls(provider, thinking=False), ChatRequest("up", "m", ASK.messages, thinking="high"))

    assert provider.asked[0].thinking == "off"


async def test_an_upstream_that_does_not_begin_is_given_up() -> None:
    provider = FakeProvider(None)

    with pytest.raises(UpstreamFailed) as caught:
        await take(calls(provider, timeout_seconds=0.001))

    assert (caught.value.status, caught.value.code, provider.closed) == (504, "upstream_timeout", True)


async def test_an_upstream_that_falls_silent_is_a_cut() -> None:
    with pytest.raises(UpstreamCut, match="fell silent") as caught:
        await take(calls(FakeProvider(TEXT, None), idle_timeout_seconds=0.001))

    assert (caught.value.kind, caught.value.code) == ("upstream_cut", "upstream_timeout")
