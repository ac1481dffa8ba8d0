"""Who may act, in virtual time."""

import asyncio
from datetime import UTC, datetime

import pytest

from mikan_operator.exceptions import LeaseLost, Unavailable
from mikan_operator.lease import DURATION, LEASE_NAME, RENEW_DEADLINE, TRY, Lease
from mikan_operator.storage.kinds import LEASE, Kind, Manifest
from mikan_operator_testing.memory import MemoryStore
from mikan_operator_testing.virtual_time import run_virtual


def now() -> datetime:
    return datetime(2026, 3, 1, tzinfo=UTC)


def holder(store: MemoryStore) -> str:
    found = store.peek(LEASE, LEASE_NAME)
    assert found is not None
    return str(found["spec"]["holderIdentity"])


def test_the_first_takes_it_and_gives_it_up() -> None:
    store = MemoryStore(now)

    async def scenario() -> None:
        lease = Lease(store, "one", now)
        await lease.acquire()
        assert holder(store) == "one"
        await lease.release()

    run_virtual(scenario())
    assert holder(store) == ""


def test_the_second_waits_until_the_first_gives_it_up() -> None:
    store = MemoryStore(now)

    async def scenario() -> float:
        one, two = Lease(store, "one", now), Lease(store, "two", now)
        await one.acquire()
        holding = asyncio.create_task(one.hold())
        waiting = asyncio.create_task(two.acquire())
        await asyncio.sleep(100)
        assert not waiting.done()
        holding.cancel()
        await one.release()
        began = asyncio.get_running_loop().time()
        await waiting
        return asyncio.get_running_loop().time() - began

    assert run_virtual(scenario()) <= 2.0
    assert holder(store) == "two"


def test_the_second_takes_over_from_a_dead_one_after_its_duration() -> None:
    store = MemoryStore(now)

    async def scenario() -> float:
        await Lease(store, "one", now).acquire()
        began = asyncio.get_running_loop().time()
        await Lease(store, "two", now).acquire()
        return asyncio.get_running_loop().time() - began

    took = run_virtual(scenario())
    assert DURATION < took <= DURATION + 4
    found = store.peek(LEASE, LEASE_NAME)
    assert found is not None
    assert found["spec"]["leaseTransitions"] == 1


def test_who_cannot_renew_leaves_before_anybody_else_may_act() -> None:
    store = MemoryStore(now)

    async def scenario() -> float:
        lease = Lease(store, "one", now)
        await lease.acquire()
        store.failures["get", "leases"] = Unavailable("no connection")
        began = asyncio.get_running_loop().time()
        with pytest.raises(LeaseLost):
            await lease.hold()
        return asyncio.get_running_loop().time() - began

    assert RENEW_DEADLINE <= run_virtual(scenario()) < DURATION


class SlowStore(MemoryStore):
    """Writes at once, and answers late."""

    delay = 0.0

    async def replace(self, kind: Kind, name: str, manifest: Manifest) -> Manifest:
        written = await super().replace(kind, name, manifest)
        await asyncio.sleep(self.delay)
        return written


def test_a_renewal_that_was_answered_late_counts_from_when_it_was_asked() -> None:
    store = SlowStore(now)

    async def scenario() -> float:
        lease = Lease(store, "one", now)
        await lease.acquire()
        store.delay = 7.0
        holding = asyncio.create_task(lease.hold())
        await asyncio.sleep(3)
        store.failures["get", "leases"] = Unavailable("no connection")
        with pytest.raises(LeaseLost):
            await holding
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario()) < 2 + DURATION


def test_a_short_outage_is_survived_told_and_its_end_announced() -> None:
    store = MemoryStore(now)
    recovered: list[float] = []

    async def scenario() -> None:
        lease = Lease(store, "one", now)
        await lease.acquire()
        holding = asyncio.create_task(lease.hold(lambda: recovered.append(asyncio.get_running_loop().time())))
        store.failures["replace", "leases"] = Unavailable("no connection")
        await asyncio.sleep(7)
        assert lease.fault == "no connection"
        del store.failures["replace", "leases"]
        await asyncio.sleep(60)
        assert (holding.done(), lease.fault) == (False, "")
        assert recovered == pytest.approx([8.0])
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)

    run_virtual(scenario())
    assert holder(store) == "one"


def test_a_lease_in_other_hands_is_lost_at_once() -> None:
    store = MemoryStore(now)

    async def scenario() -> float:
        lease = Lease(store, "one", now)
        await lease.acquire()
        taken = store.peek(LEASE, LEASE_NAME)
        assert taken is not None
        store.put(LEASE, {**taken, "spec": {**taken["spec"], "holderIdentity": "two"}})
        began = asyncio.get_running_loop().time()
        with pytest.raises(LeaseLost):
            await lease.hold()
        return asyncio.get_running_loop().time() - began

    assert run_virtual(scenario()) == pytest.approx(2.0)


def test_a_lease_of_somebody_else_is_not_released() -> None:
    store = MemoryStore(now)

    async def scenario() -> None:
        await Lease(store, "one", now).acquire()
        await Lease(store, "two", now).release()

    run_virtual(scenario())
    assert holder(store) == "one"


class SilentStore(MemoryStore):
    """Never answers."""

    async def get(self, kind: Kind, name: str) -> Manifest:
        await asyncio.Event().wait()
        raise AssertionError("never")


def test_who_waits_for_a_server_that_does_not_answer_asks_again_and_says_so() -> None:
    async def scenario() -> str:
        lease = Lease(SilentStore(now), "one", now)
        waiting = asyncio.create_task(lease.acquire())
        await asyncio.sleep(TRY + 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return lease.fault

    assert run_virtual(scenario()) == "the API server does not answer"


def test_giving_it_up_takes_a_bounded_time() -> None:
    async def scenario() -> float:
        await Lease(SilentStore(now), "one", now).release()
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario()) == TRY
