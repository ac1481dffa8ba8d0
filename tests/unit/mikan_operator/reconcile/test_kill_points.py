"""An operator that dies around any of its writes, each single one: the next one brings about the same objects.

In memory and with an exception for SIGKILL, so that a story of many writes can be told once for each of them. Real
processes are killed in ``tests/integration/operator``.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from mikan_api.kill_points import VARIABLE, Step, arm
from mikan_operator.lease import DURATION, LEASE_NAME, PERIOD, Lease
from mikan_operator.storage.kinds import (
    LEASE,
    OFFICE,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE_ACCOUNT,
    VAULT,
    Manifest,
)
from mikan_operator.storage.kubernetes import WRITES
from mikan_operator_testing.live import office
from mikan_operator_testing.memory import MemoryStore
from mikan_operator_testing.virtual_time import run_virtual
from mikan_operator_testing.world import World

KINDS = (OFFICE, VAULT, POD, ROLE, ROLE_BINDING, SECRET, SERVICE_ACCOUNT)
UNLIKE = ("uid", "podUID", "resourceVersion", "generation")


def _noon() -> datetime:
    return datetime(2026, 3, 1, 12, tzinfo=UTC)


class Killed(BaseException):
    """In place of SIGKILL."""


class Killer:
    """Counts the times that a place is reached, and kills at one of them."""

    def __init__(self) -> None:
        self.killed = 0

    def __call__(self) -> None:
        self.killed += 1
        raise Killed


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm({})


async def settle(world: World) -> None:
    """Reconcile; a process that dies is followed by the next, which is told everything again."""
    try:
        await world.settle()
    except Killed:
        world.queue.pending.clear()
        world.restart()
        await world.settle()


async def story(world: World) -> list[dict[str, Any]]:
    """An office wakes, goes idle, wakes, and goes for good with its data; what there is after each chapter."""
    chapters = []
    made = office("general", dataRetention="Delete")
    key = world.store.put(OFFICE, made)["metadata"]["name"]
    await settle(world)
    for pod in world.store.names(POD):
        world.ready(pod)
    await settle(world)
    chapters.append(snapshot(world))

    world.now = world.now.replace(hour=20)
    world.intake.enqueue_all()
    await settle(world)
    for pod in world.store.names(POD):
        world.store.vanish(POD, pod)
    await settle(world)
    chapters.append(snapshot(world))

    world.activity(key)
    await settle(world)
    for pod in world.store.names(POD):
        world.ready(pod)
    await settle(world)
    chapters.append(snapshot(world))

    found = world.store.peek(OFFICE, key)
    assert found is not None
    world.store.put(OFFICE, {**found, "metadata": {**found["metadata"], "deletionTimestamp": world.now.isoformat()}})
    await settle(world)
    for pod in world.store.names(POD):
        world.store.vanish(POD, pod)
        await settle(world)
    world.store.set_status(POD, f"c-{key}", phase="Succeeded")
    await settle(world)
    chapters.append(snapshot(world))
    assert world.store.peek(OFFICE, key) is None
    return chapters


def snapshot(world: World) -> dict[str, Any]:
    """Every object but for its identity; Events by what they say."""
    objects = {
        (kind.plural, name): like(world.store.peek(kind, name)) for kind in KINDS for name in world.store.names(kind)
    }
    return {"objects": objects, "events": sorted(world.events())}


def like(manifest: Manifest | None) -> Any:
    """Without what differs from one object to the next of the same form."""
    if isinstance(manifest, dict):
        return {key: like(value) for key, value in manifest.items() if key not in UNLIKE}
    return [like(one) for one in manifest] if isinstance(manifest, list) else manifest


STEPS = {
    (verb, f"{kind.plural}{'/' if subresource else ''}{subresource}"): step
    for (verb, kind, subresource), step in WRITES.items()
}


async def told() -> tuple[list[dict[str, Any]], Counter[Step]]:
    """The story without a death, and how often each step is in it."""
    world = World()
    chapters = await story(world)
    return chapters, Counter(STEPS[verb, what] for verb, what, _ in world.store.writes)


@pytest.mark.parametrize("side", ["before", "after"])
async def test_an_operator_killed_around_any_write_is_followed_by_one_that_ends_the_same(side: str) -> None:
    expected, counts = await told()
    assert {step: times for step, times in counts.items() if times > 1} == {
        Step.POD_CREATE: 5,
        Step.POD_DELETE: 4,
        Step.OFFICE_APPLY: 2,
        Step.OFFICE_STATUS_APPLY: counts[Step.OFFICE_STATUS_APPLY],
    }
    for place in [f"{step}.{side}:{nth}" for step, times in counts.items() for nth in range(1, times + 1)]:
        killer = Killer()
        arm({VARIABLE: place}, killer)

        chapters = await story(World())

        assert killer.killed == 1
        assert chapters == expected, f"killed at {place}"


@pytest.mark.parametrize("place", ["operator.lease.create.after", "operator.lease.replace.before"])
@pytest.mark.parametrize("released", [True, False])
def test_an_operator_killed_with_the_lease_in_hand_is_followed_once_it_has_run_out(place: str, released: bool) -> None:
    store = MemoryStore(_noon)
    killer = Killer()

    async def live(lease: Lease) -> None:
        await lease.acquire()
        await (lease.release() if released else lease.hold())

    async def scenario() -> float:
        arm({VARIABLE: place}, killer)
        first = Lease(store, "one", _noon)
        with pytest.raises(Killed):
            await live(first)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await Lease(store, "two", _noon).acquire()
        return loop.time() - began

    waited = run_virtual(scenario())
    assert killer.killed == 1
    assert DURATION <= waited <= DURATION + 2 * PERIOD
    found = store.peek(LEASE, LEASE_NAME)
    assert found is not None
    assert found["spec"]["holderIdentity"] == "two"


def test_an_operator_killed_right_after_it_gave_the_lease_up_is_followed_at_once() -> None:
    store = MemoryStore(_noon)

    async def scenario() -> float:
        first = Lease(store, "one", _noon)
        await first.acquire()
        arm({VARIABLE: "operator.lease.replace.after"}, Killer())
        with pytest.raises(Killed):
            await first.release()
        loop = asyncio.get_running_loop()
        began = loop.time()
        await Lease(store, "two", _noon).acquire()
        return loop.time() - began

    assert run_virtual(scenario()) <= PERIOD
