"""Scheduled events from an object in a real API server to the request that the gateway gets, by a real process."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mikan_api.firings import PATH, FiringAnswer, FiringBatch, FiringOutcome, FiringResult
from mikan_api.kill_points import Step
from mikan_api.resources import ScheduledEventStatus
from mikan_api.tokens import verify_request
from mikan_dev.paths import kubeconfig
from mikan_operator.storage.kinds import SCHEDULED_EVENT, Manifest
from mikan_operator_testing.live import Live, conditions


class PlayedListener:
    """The gateway's listener. Knows delivery ids; ``statuses`` are answered instead, one a request."""

    def __init__(self, world: Live) -> None:
        self._world = world
        self.taken: dict[str, datetime] = {}
        """Delivery id -> when it was first taken."""
        self.asked: list[str] = []
        self.statuses: list[int] = []
        self.refusal: FiringResult | None = None
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_post(PATH, self._take)
        self.server = TestServer(application)

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        key = (self._world.directory / "keys" / "gateway").read_bytes()
        verify_request([key], body, request.headers.get("Authorization"))
        if self.statuses:
            return web.Response(status=self.statuses.pop(0))
        results = tuple(self._result(firing.delivery_id) for firing in FiringBatch.model_validate_json(body).firings)
        return web.Response(text=FiringAnswer(results=results).model_dump_json(by_alias=True))

    def _result(self, delivery: str) -> FiringResult:
        self.asked.append(delivery)
        if self.refusal is not None:
            return self.refusal
        known = delivery in self.taken
        self.taken.setdefault(delivery, datetime.now(UTC))
        return FiringResult(outcome=FiringOutcome.REPEATED if known else FiringOutcome.QUEUED)


@pytest.fixture
async def listener(idle_world: Live) -> AsyncIterator[PlayedListener]:
    """A gateway that the operator is told of."""
    listener = PlayedListener(idle_world)
    await listener.server.start_server()
    file = idle_world.directory / "operator.json"
    document = json.loads(file.read_text()) | {"gatewayUrl": str(listener.server.make_url("")).rstrip("/")}
    file.write_text(json.dumps(document))
    yield listener
    await listener.server.close()


def event(name: str, **spec: Any) -> Manifest:
    common = {"platform": "console", "conversationId": "general", "text": "Look around"}
    return {
        "apiVersion": SCHEDULED_EVENT.api_version,
        "kind": SCHEDULED_EVENT.kind,
        "metadata": {"name": name},
        "spec": {**common, **spec},
    }


def once(name: str, seconds: float, **spec: Any) -> Manifest:
    at = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
    return event(name, type="one-shot", at=at, **spec)


async def status(world: Live, name: str) -> ScheduledEventStatus:
    found = await world.offices.get(SCHEDULED_EVENT, name)
    return ScheduledEventStatus.model_validate(found.get("status") or {})


async def until_said(world: Live, name: str, ready: tuple[str, str]) -> None:
    async def said() -> bool:
        return conditions(await world.offices.get(SCHEDULED_EVENT, name)).get("Ready") == ready

    await world.until(said)


async def test_one_shot_and_immediate_events_fire_in_time_and_go(idle_world: Live, listener: PlayedListener) -> None:
    world = idle_world
    await world.start(kubeconfig())
    made = await world.make(SCHEDULED_EVENT, once("tea", 3))
    await world.make(SCHEDULED_EVENT, event("now", type="immediate"))
    await world.gone(SCHEDULED_EVENT, "now")
    await world.gone(SCHEDULED_EVENT, "tea")
    uid = made["metadata"]["uid"]
    [taken] = [at for delivery, at in listener.taken.items() if delivery.startswith(uid)]
    late = (taken - datetime.fromisoformat(made["spec"]["at"])).total_seconds()
    assert 0 <= late < 2
    assert len(listener.asked) == 2


async def test_a_periodic_event_says_when_it_fires_next_and_a_restart_does_not_move_it(
    idle_world: Live, listener: PlayedListener
) -> None:
    world = idle_world
    await world.start(kubeconfig())
    await world.make(SCHEDULED_EVENT, event("yearly", type="periodic", schedule="0 9 1 1 *", timezone="Europe/Berlin"))
    await until_said(world, "yearly", ("True", "Scheduled"))
    before = await world.offices.get(SCHEDULED_EVENT, "yearly")
    assert before["status"]["nextFireTime"] == f"{datetime.now(UTC).year + 1}-01-01T08:00:00Z"
    assert before["metadata"].get("finalizers") is None
    await world.stop()
    await world.start(kubeconfig())
    await asyncio.sleep(3)
    assert await world.offices.get(SCHEDULED_EVENT, "yearly") == before
    assert listener.asked == []


async def test_what_came_due_while_nobody_watched_fires_once(idle_world: Live, listener: PlayedListener) -> None:
    world = idle_world
    made = await world.make(SCHEDULED_EVENT, once("missed", -90_000))
    await world.start(kubeconfig())
    await world.gone(SCHEDULED_EVENT, "missed")
    assert listener.asked == [f"{made['metadata']['uid']}/{_seconds(made['spec']['at'])}"]


async def test_a_refused_event_stays_with_the_reason_and_an_event_for_kubectl_describe(
    idle_world: Live, listener: PlayedListener
) -> None:
    world = idle_world
    listener.refusal = FiringResult(outcome=FiringOutcome.OFFICE_NOT_FOUND, message="there is no office v1-x")
    await world.start(kubeconfig())
    await world.make(SCHEDULED_EVENT, once("lost", 0))
    await until_said(world, "lost", ("False", "OfficeNotFound"))
    found = await status(world, "lost")
    assert found.last_delivery is not None
    assert (found.last_delivery.result, found.last_delivery.message) == ("OfficeNotFound", "there is no office v1-x")

    async def told() -> bool:
        return ("OfficeNotFound", "there is no office v1-x") in await world.events("lost")

    await world.until(told)
    await asyncio.sleep(2)
    assert len(listener.asked) == 1


async def test_a_gateway_that_restarts_gets_it_once(idle_world: Live, listener: PlayedListener) -> None:
    world = idle_world
    listener.statuses += [503, 503, 500]
    await world.start(kubeconfig())
    await world.make(SCHEDULED_EVENT, event("now", type="immediate"))
    await world.gone(SCHEDULED_EVENT, "now")
    assert len(listener.asked) == 1


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("step", [Step.FIRING_SEND, Step.SCHEDULED_EVENT_DELETE])
async def test_an_operator_killed_while_it_fires_is_followed_by_one_that_does_not_fire_again(
    idle_world: Live, listener: PlayedListener, step: Step, side: str
) -> None:
    world = idle_world
    await world.start(kubeconfig(), MIKAN_KILL_POINT=f"{step}.{side}")
    await world.make(SCHEDULED_EVENT, event("now", type="immediate"))
    await _killed(world)
    await world.start(kubeconfig())
    await world.gone(SCHEDULED_EVENT, "now")
    assert len(listener.taken) == 1


@pytest.mark.parametrize("side", ["before", "after"])
async def test_an_operator_killed_as_it_writes_a_status_is_followed_by_one_that_says_the_same(
    idle_world: Live, listener: PlayedListener, side: str
) -> None:
    world = idle_world
    listener.refusal = FiringResult(outcome=FiringOutcome.QUEUE_FULL, message="5 wait already")
    await world.start(kubeconfig(), MIKAN_KILL_POINT=f"{Step.SCHEDULED_EVENT_STATUS_APPLY}.{side}")
    await world.make(SCHEDULED_EVENT, once("lost", 0))
    await _killed(world)
    await world.start(kubeconfig())
    await until_said(world, "lost", ("False", "QueueFull"))
    await asyncio.sleep(2)
    assert len(listener.asked) == (2 if side == "before" else 1)


async def _killed(world: Live) -> None:
    assert world.process is not None
    assert await asyncio.wait_for(world.process.wait(), 60) == -signal.SIGKILL


def _seconds(at: str) -> str:
    return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
