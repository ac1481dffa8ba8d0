"""Scheduled events over a store in memory: what fires, how often, and what the object says of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mikan_api.firings import FiringOutcome, FiringResult
from mikan_api.kill_points import VARIABLE, arm
from mikan_operator.exceptions import Unavailable
from mikan_operator.storage.kinds import SCHEDULED_EVENT
from mikan_operator_testing.live import conditions
from mikan_operator_testing.world import NOON, World


def event(name: str = "daily", **spec: Any) -> dict[str, Any]:
    fields = {"type": "periodic", "schedule": "0 13 * * *", "timezone": "UTC"} if "type" not in spec else {}
    common = {"platform": "console", "conversationId": "general", "conversationKind": "direct", "text": "Look around"}
    return {"metadata": {"name": name}, "spec": {**common, **fields, **spec}}


def once(name: str = "once", minutes: float = 60, **spec: Any) -> dict[str, Any]:
    return event(name, type="one-shot", at=(NOON + timedelta(minutes=minutes)).isoformat(), **spec)


def status(world: World, name: str = "daily") -> dict[str, Any]:
    found = world.store.peek(SCHEDULED_EVENT, name)
    assert found is not None
    value: dict[str, Any] = found["status"]
    return value


def said(world: World, name: str = "daily") -> dict[str, tuple[str, str]]:
    return conditions(world.store.peek(SCHEDULED_EVENT, name) or {})


async def test_a_status_says_when_it_fires_next_and_nothing_is_written_until_then() -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, event())
    await world.settle()
    assert status(world)["nextFireTime"] == "2026-03-01T13:00:00Z"
    assert said(world) == {"Ready": ("True", "Scheduled"), "Scheduled": ("True", "Scheduled")}
    assert world.fires_after == {"daily": 3600.0}
    world.store.writes.clear()
    await world.pass_time(3599)
    world.restart()
    await world.settle()
    assert world.store.writes == []
    assert world.gateway.asked == []


async def test_a_periodic_event_fires_at_its_time_and_says_so() -> None:
    world = World()
    made = world.store.put(SCHEDULED_EVENT, event())
    await world.settle()
    await world.pass_time(3600)
    [firing] = world.gateway.taken
    assert firing.delivery_id == f"{made['metadata']['uid']}/2026-03-01T13:00:00Z"
    assert (firing.conversation_id, firing.text) == ("general", "Look around")
    found = status(world)
    assert found["nextFireTime"] == "2026-03-02T13:00:00Z"
    assert found["lastFireTime"] == "2026-03-01T13:00:00Z"
    assert found["lastDelivery"] == {"id": firing.delivery_id, "result": "Queued", "message": ""}
    assert world.fires_after == {"daily": 24 * 3600.0}
    world.store.writes.clear()
    await world.pass_time(60)
    assert world.store.writes == []


async def test_ticks_that_were_missed_fire_once() -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, event(schedule="*/10 * * * *"))
    await world.settle()
    world.now += timedelta(hours=7, minutes=3)
    world.restart()
    await world.settle()
    assert [firing.scheduled_time for firing in world.gateway.taken] == [datetime(2026, 3, 1, 19, 0, tzinfo=UTC)]
    assert status(world)["nextFireTime"] == "2026-03-01T19:10:00Z"


@pytest.mark.parametrize("made", [once(minutes=5), event("once", type="immediate")])
async def test_what_fires_once_is_gone_when_it_was_delivered(made: dict[str, Any]) -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, made)
    await world.settle()
    await world.pass_time(300)
    assert [firing.name for firing in world.gateway.taken] == ["once"]
    assert world.store.names(SCHEDULED_EVENT) == []


async def test_a_one_shot_that_was_missed_fires_late_and_once() -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, once(minutes=5))
    world.now += timedelta(days=3)
    await world.settle()
    world.restart()
    await world.settle()
    assert len(world.gateway.asked) == 1
    assert world.store.names(SCHEDULED_EVENT) == []


async def test_a_deadline_lets_it_go_and_says_so() -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, once(minutes=5, startingDeadlineSeconds=60))
    world.now += timedelta(minutes=10)
    await world.settle()
    await world.pass_time(600)
    assert world.gateway.asked == []
    assert said(world, "once") == {"Ready": ("False", "Missed"), "Scheduled": ("False", "Over")}
    assert status(world, "once")["lastDelivery"]["message"] == "late by 300 s, more than startingDeadlineSeconds"
    assert world.events() == [("once", "Missed")]


@pytest.mark.parametrize(
    "outcome", [outcome for outcome in FiringOutcome if not outcome.accepted], ids=lambda outcome: outcome.value
)
async def test_what_is_refused_stays_with_the_reason_and_is_not_tried_again(outcome: FiringOutcome) -> None:
    world = World()
    world.gateway.refusal = FiringResult(outcome=outcome, message="because")
    world.store.put(SCHEDULED_EVENT, once(minutes=5))
    await world.settle()
    await world.pass_time(300)
    world.restart()
    await world.settle()
    await world.pass_time(3600)
    assert len(world.gateway.asked) == 1
    assert said(world, "once") == {"Ready": ("False", outcome.value), "Scheduled": ("False", "Over")}
    assert status(world, "once")["lastDelivery"]["message"] == "because"
    assert world.events() == [("once", outcome.value)]


async def test_a_refused_periodic_event_keeps_the_reason_until_it_fires_again() -> None:
    world = World()
    world.gateway.refusal = FiringResult(outcome=FiringOutcome.QUEUE_FULL, message="5 wait already")
    world.store.put(SCHEDULED_EVENT, event())
    await world.settle()
    await world.pass_time(3600)
    await world.pass_time(3600)
    assert said(world) == {"Ready": ("False", "QueueFull"), "Scheduled": ("True", "Scheduled")}
    world.gateway.refusal = None
    await world.pass_time(23 * 3600)
    assert said(world)["Ready"] == ("True", "Scheduled")
    assert status(world)["lastDelivery"]["result"] == "Queued"


async def test_changing_a_refused_one_shot_has_it_tried_again() -> None:
    world = World()
    world.gateway.refusal = FiringResult(outcome=FiringOutcome.OFFICE_NOT_FOUND, message="no such office")
    world.store.put(SCHEDULED_EVENT, once(minutes=0))
    await world.settle()
    world.gateway.refusal = None
    world.store.put(SCHEDULED_EVENT, once(minutes=0, text="Look again"))
    await world.settle()
    assert [firing.text for firing in world.gateway.taken] == ["Look again"]
    assert world.store.names(SCHEDULED_EVENT) == []


async def test_a_suspended_event_does_not_fire() -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, event(suspend=True))
    await world.settle()
    await world.pass_time(2 * 24 * 3600)
    assert world.gateway.asked == []
    assert "nextFireTime" not in status(world)
    assert said(world) == {"Ready": ("False", "Suspended"), "Scheduled": ("False", "Suspended")}
    world.store.put(SCHEDULED_EVENT, event(suspend=False))
    await world.settle()
    assert world.gateway.asked == []
    assert status(world)["nextFireTime"] == "2026-03-03T13:00:00Z"


async def test_a_schedule_that_no_calendar_has_is_said_once() -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, event(schedule="0 0 31 11 *"))
    await world.settle()
    await world.pass_time(600)
    assert said(world) == {"Ready": ("False", "InvalidSchedule"), "Scheduled": ("False", "InvalidSchedule")}
    assert world.events() == [("daily", "InvalidSchedule")]


async def test_a_gateway_that_is_away_is_tried_again_and_shows_after_a_while() -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, event())
    await world.settle()
    world.gateway.away = True
    world.now += timedelta(hours=1)
    pauses = []
    world.intake.enqueue_all()
    for _ in range(7):
        world._fire("daily")
        await world.settle()
        pauses.append(world.again["daily"])
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert said(world) == {"Ready": ("False", "GatewayUnavailable"), "Scheduled": ("True", "Scheduled")}
    assert status(world)["nextFireTime"] == "2026-03-01T13:00:00Z"
    world.gateway.away = False
    world._fire("daily")
    await world.settle()
    assert len(world.gateway.taken) == 1
    assert said(world)["Ready"] == ("True", "Scheduled")
    assert status(world)["nextFireTime"] == "2026-03-02T13:00:00Z"


async def test_an_event_that_was_suspended_while_the_gateway_was_away_fires_once_it_may() -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, once(minutes=0))
    world.gateway.away = True
    await world.settle()
    world.store.put(SCHEDULED_EVENT, once(minutes=0, suspend=True))
    world._fire("once")
    await world.settle()
    world.gateway.away = False
    world.store.put(SCHEDULED_EVENT, once(minutes=0, suspend=False))
    await world.settle()
    assert [firing.name for firing in world.gateway.taken] == ["once"]


async def test_a_status_that_cannot_be_written_does_not_fire_it_again() -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, event())
    await world.settle()
    world.store.failures["apply", "scheduledevents"] = Unavailable("away", 503)
    world.now += timedelta(hours=1)
    world.intake.enqueue_all()
    with pytest.raises(Unavailable):
        await world.settle()
    world.store.failures.clear()
    world.intake.enqueue_all()
    await world.settle()
    assert len(world.gateway.asked) == 1
    assert status(world)["lastDelivery"]["result"] == "Queued"


async def test_an_event_that_changed_as_it_fired_is_kept_if_it_is_for_another_time_now() -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, once(minutes=5))
    await world.settle()
    world.now += timedelta(minutes=5)
    world.intake.enqueue_all()
    world.queue.pending.clear()
    assert await world.scheduled_events.fire("once") is None
    world.store.put(SCHEDULED_EVENT, once(minutes=60))
    await world.settle()
    assert status(world, "once")["nextFireTime"] == "2026-03-01T13:00:00Z"


class Killed(BaseException):
    """In place of SIGKILL."""


def _kill() -> None:
    raise Killed


@pytest.mark.parametrize("made", [event(), once()], ids=["periodic", "one-shot"])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("step", ["operator.scheduled-event.status.apply", "operator.scheduled-event.delete"])
async def test_an_operator_killed_around_any_write_fires_no_second_time(
    made: dict[str, Any], side: str, step: str
) -> None:
    world = World()
    world.store.put(SCHEDULED_EVENT, made)
    await world.settle()
    arm({VARIABLE: f"{step}.{side}"}, _kill)
    killed = False
    try:
        await world.pass_time(3600)
    except Killed:
        killed = True
    finally:
        arm({})
    world.restart()
    await world.settle()
    assert killed is (("delete" in step) == (made["metadata"]["name"] == "once"))
    assert len(world.gateway.taken) == 1
    assert world.store.names(SCHEDULED_EVENT) == (["daily"] if made["metadata"]["name"] == "daily" else [])
