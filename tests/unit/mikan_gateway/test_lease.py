"""Who may act, in virtual time; `tests/integration/gateway/test_lease.py` asks a real API server."""

import asyncio
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient

from mikan_gateway.lease import DURATION, ENDING_DURATION, RENEW_DEADLINE, WAITING, LeaseHolder
from mikan_gateway.ports import Health
from mikan_operator_testing.virtual_time import run_virtual


class LoopClock:
    """The loop's time, which is virtual here."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Leases:
    """Holds one Lease, for as long as it answers."""

    def __init__(self) -> None:
        self.lease: Any = None
        self.refusing_from = self.silent_from = float("inf")
        """Loop times: it refuses from the first on, and from the second on does not even answer."""

    async def read_namespaced_lease(self, name: str, namespace: str) -> Any:
        now = asyncio.get_running_loop().time()
        if now >= self.silent_from:
            await asyncio.Event().wait()
        if now >= self.refusing_from:
            raise OSError("connection refused")
        return self.lease

    async def create_namespaced_lease(self, namespace: str, body: Any) -> None:
        self.lease = body

    async def replace_namespaced_lease(self, name: str, namespace: str, body: Any) -> None:
        self.lease = body


async def kept(
    leases: Leases, monkeypatch: pytest.MonkeyPatch, ending: bool = False, fenced: bool = False
) -> asyncio.Event:
    """Take the Lease and keep it; the event tells of its loss."""
    holder = LeaseHolder(ApiClient(), "mikan", "mikan-gateway", "one", LoopClock(), fenced=fenced)
    monkeypatch.setattr(holder, "_api", leases)
    await holder.acquire()
    lost = asyncio.Event()
    holder.keep(lost.set)
    if ending:
        await holder.hasten()
    return lost


@pytest.mark.parametrize("refused", [0.0, 9.5, 60.0])
def test_who_cannot_renew_leaves_before_anybody_else_may_act(monkeypatch: pytest.MonkeyPatch, refused: float) -> None:
    """However the failures are spread: refusals at first, no answer then."""
    leases = Leases()

    async def scenario() -> float:
        lost = await kept(leases, monkeypatch)
        began = asyncio.get_running_loop().time()
        leases.refusing_from, leases.silent_from = began, began + refused
        await lost.wait()
        return asyncio.get_running_loop().time() - began

    assert RENEW_DEADLINE <= run_virtual(scenario()) < DURATION


@pytest.mark.parametrize("fenced", [False, True])
def test_a_lease_in_other_hands_is_lost_at_once(monkeypatch: pytest.MonkeyPatch, fenced: bool) -> None:
    leases = Leases()

    async def scenario() -> float:
        lost = await kept(leases, monkeypatch, fenced=fenced)
        began = asyncio.get_running_loop().time()
        leases.lease.spec.holder_identity = "two"
        await lost.wait()
        return asyncio.get_running_loop().time() - began

    assert run_virtual(scenario()) == pytest.approx(2.0)


@pytest.mark.parametrize("refused", [0.0, 2.5, 60.0])
def test_who_ends_and_cannot_renew_leaves_before_anybody_else_may_act(
    monkeypatch: pytest.MonkeyPatch, refused: float
) -> None:
    leases = Leases()

    async def scenario() -> float:
        lost = await kept(leases, monkeypatch, ending=True)
        began = asyncio.get_running_loop().time()
        leases.refusing_from, leases.silent_from = began, began + refused
        await lost.wait()
        return asyncio.get_running_loop().time() - began

    assert run_virtual(scenario()) < ENDING_DURATION


def test_the_successor_of_one_that_was_killed_while_it_ended_waits_a_third_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leases = Leases()

    async def scenario() -> float:
        killed = LeaseHolder(ApiClient(), "mikan", "mikan-gateway", "one", LoopClock())
        monkeypatch.setattr(killed, "_api", leases)
        await killed.acquire()
        await killed.hasten()
        began = asyncio.get_running_loop().time()
        successor = LeaseHolder(ApiClient(), "mikan", "mikan-gateway", "two", LoopClock())
        monkeypatch.setattr(successor, "_api", leases)
        await successor.acquire()
        return asyncio.get_running_loop().time() - began

    assert ENDING_DURATION < run_virtual(scenario()) <= ENDING_DURATION + 2 * WAITING


@pytest.mark.parametrize("answers", ["refused", "silent"])
def test_behind_a_fence_an_api_server_that_is_away_ends_nothing_and_is_told(
    monkeypatch: pytest.MonkeyPatch, answers: str
) -> None:
    leases = Leases()
    holder = LeaseHolder(ApiClient(), "mikan", "mikan-gateway", "one", LoopClock(), fenced=True)
    monkeypatch.setattr(holder, "_api", leases)

    async def scenario() -> list[Health]:
        await holder.acquire()
        lost = asyncio.Event()
        holder.keep(lost.set)
        began = asyncio.get_running_loop().time()
        setattr(leases, f"{'refusing' if answers == 'refused' else answers}_from", began)
        await asyncio.sleep(600)
        away = holder.health()
        leases.refusing_from = leases.silent_from = float("inf")
        await asyncio.sleep(10)
        assert not lost.is_set()
        return [away, holder.health()]

    reason = "not renewed: OSError" if answers == "refused" else "not renewed: TimeoutError"
    assert run_virtual(scenario()) == [Health(False, reason), Health(True)]


def test_a_holder_that_is_known_to_have_ended_is_not_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    leases = Leases()

    async def scenario() -> float:
        killed = LeaseHolder(ApiClient(), "mikan", "mikan-gateway", "one", LoopClock())
        monkeypatch.setattr(killed, "_api", leases)
        await killed.acquire()
        began = asyncio.get_running_loop().time()
        successor = LeaseHolder(ApiClient(), "mikan", "mikan-gateway", "two", LoopClock(), ended="one")
        monkeypatch.setattr(successor, "_api", leases)
        await successor.acquire()
        return asyncio.get_running_loop().time() - began

    assert run_virtual(scenario()) == 0.0
    assert leases.lease.spec.holder_identity == "two"


def test_giving_it_up_takes_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    leases = Leases()

    async def scenario() -> float:
        holder = LeaseHolder(ApiClient(), "mikan", "mikan-gateway", "one", LoopClock())
        monkeypatch.setattr(holder, "_api", leases)
        await holder.acquire()
        began = leases.silent_from = asyncio.get_running_loop().time()
        await holder.release()
        return asyncio.get_running_loop().time() - began

    assert run_virtual(scenario()) == RENEW_DEADLINE
