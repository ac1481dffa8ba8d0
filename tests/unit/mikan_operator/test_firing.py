"""Firings on their way to the gateway: together, signed, and none lost when it is away."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mikan_api.exceptions import TokenRefused
from mikan_api.firings import PATH, Firing, FiringAnswer, FiringBatch, FiringOutcome, FiringResult, delivery_id
from mikan_api.identity import Platform
from mikan_api.messaging import ConversationKind
from mikan_api.tokens import verify_request
from mikan_operator.exceptions import GatewayUnavailable
from mikan_operator.firing import GatewayFirings

KEY = b"k" * 32
NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class Listener:
    """The gateway's end."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.status = 200
        self.answer: str | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_post(PATH, self._take)
        self.server = TestServer(application)

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        verify_request([KEY], body, request.headers.get("Authorization"))
        await self.gate.wait()
        batch = FiringBatch.model_validate_json(body)
        self.batches.append(len(batch.firings))
        results = tuple(FiringResult(outcome=FiringOutcome.QUEUED, message=firing.name) for firing in batch.firings)
        text = FiringAnswer(results=results).model_dump_json(by_alias=True) if self.answer is None else self.answer
        return web.Response(text=text, status=self.status)


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    await listener.server.start_server()
    yield listener
    await listener.server.close()


@pytest.fixture
async def firings(listener: Listener) -> AsyncIterator[GatewayFirings]:
    firings = GatewayFirings(str(listener.server.make_url("/")), lambda: KEY)
    yield firings
    await firings.aclose()


def firing(name: str = "daily", text: str = "look") -> Firing:
    return Firing(
        delivery_id=delivery_id(name, NINE),
        name=name,
        platform=Platform.CONSOLE,
        conversation_id="c",
        conversation_kind=ConversationKind.DIRECT,
        text=text,
        scheduled_time=NINE,
    )


async def test_what_is_due_at_once_goes_together_and_each_hears_its_own_result(
    listener: Listener, firings: GatewayFirings
) -> None:
    names = [f"e{number}" for number in range(600)]
    results = await asyncio.gather(*(firings.deliver(firing(name)) for name in names))
    assert [result.message for result in results] == names
    assert listener.batches == [250, 250, 100]


async def test_long_texts_go_in_requests_of_bounded_size(listener: Listener, firings: GatewayFirings) -> None:
    await asyncio.gather(*(firings.deliver(firing(f"e{number}", "x" * 32_768)) for number in range(70)))
    assert listener.batches == [30, 30, 10]


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (503, "", "answers 503"),
        (200, "<html>", "no answer"),
        (200, '{"results": []}', "another number of results"),
    ],
)
async def test_what_is_no_answer_may_be_asked_again(
    listener: Listener, firings: GatewayFirings, status: int, answer: str, said: str
) -> None:
    listener.status, listener.answer = status, answer
    for _ in range(2):
        with pytest.raises(GatewayUnavailable, match=said):
            await firings.deliver(firing())
    listener.status, listener.answer = 200, None
    assert (await firings.deliver(firing())).outcome is FiringOutcome.QUEUED


async def test_a_gateway_that_is_gone_is_said_and_its_return_noticed(firings: GatewayFirings) -> None:
    nobody = GatewayFirings("http://127.0.0.1:9", lambda: KEY)
    with pytest.raises(GatewayUnavailable, match="does not answer"):
        await nobody.deliver(firing())
    await nobody.aclose()


async def test_a_fault_of_ours_leaves_nobody_waiting(listener: Listener) -> None:
    def no_key() -> bytes:
        raise ValueError("no key")

    broken = GatewayFirings(str(listener.server.make_url("/")), no_key)
    with pytest.raises(GatewayUnavailable, match="could not send"):
        await broken.deliver(firing())
    await broken.aclose()


async def test_closing_gives_up_what_is_under_way(listener: Listener, firings: GatewayFirings) -> None:
    listener.gate.clear()
    waiting = asyncio.create_task(firings.deliver(firing()))
    await asyncio.sleep(0.05)
    await firings.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    listener.gate.set()


@pytest.mark.parametrize(
    ("body", "authorization"),
    [(b"{}", None), (b"{}", "Bearer x"), (b"{}", "Basic x"), (b"{}", "Bearer mkr1.a.b"), (b"{}", "Bearer \u00e9")],
)
def test_a_request_that_the_operator_did_not_sign_is_refused(body: bytes, authorization: str | None) -> None:
    with pytest.raises(TokenRefused):
        verify_request([KEY], body, authorization)
