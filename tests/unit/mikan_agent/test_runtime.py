"""Runs through lanes: order, eviction, and what becomes of errors before a run begins."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_peers.clock import VirtualClock, settle
from agent_peers.office import run_request
from mikan_agent.harness.responder import Responder
from mikan_agent.outbox import Outbox
from mikan_agent.records.exceptions import StorageFailed
from mikan_agent.run import ActiveRun
from mikan_agent.runtime import IDLE, Runtime
from mikan_api.responder import Diagnostic, ResponderOperation, RunFinished, RunOutcome
from mikan_api.session_keys import SessionKey

DONE = RunFinished(outcome=RunOutcome.COMPLETED)


class Runner:
    """Notes what it is given, and ends when told."""

    def __init__(self, key: SessionKey, notes: list[str], gate: asyncio.Event) -> None:
        self._key, self._notes, self._gate = key, notes, gate

    async def run(self, run: ActiveRun) -> RunFinished:
        self._notes.append(f"run {run.run_id}")
        await self._gate.wait()
        return DONE

    async def close(self) -> None:
        self._notes.append(f"close {self._key}")
        if self._key == "stuck":
            raise StorageFailed("'s.jsonl' failed: No space left on device")


class Runners:
    """Opens such runners."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.gate = asyncio.Event()
        self.fault: Exception | None = None
        self.resetting = asyncio.Event()
        self.resetting.set()

    async def open(self, key: SessionKey) -> Runner:
        if self.fault is not None:
            raise self.fault
        self.notes.append(f"open {key}")
        return Runner(key, self.notes, self.gate)

    async def exists(self, key: SessionKey) -> bool:
        return True

    async def reset(self, key: SessionKey, log_number: int) -> str:
        await self.resetting.wait()
        self.notes.append(f"reset {key}")
        return "new.jsonl"


class Log:
    """Has everything already."""

    async def reached(self, number: int) -> None:
        return None

    async def posted(self, key: SessionKey, after: int) -> None:
        return None


class Scene:
    """A runtime and all around it."""

    def __init__(self) -> None:
        self.clock, self.outbox, self.runners = VirtualClock(), Outbox(), Runners()
        self.runtime = Runtime(
            self.runners, Log(), self.clock, lambda run: Responder(run, self.outbox, lambda _: None, self.clock)
        )

    def operations(self) -> list[tuple[str, ResponderOperation]]:
        return [(o.run_id, o.operation) for o in self.outbox.pending()]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """Set up, and closed afterwards."""
    s = Scene()
    yield s
    await s.runtime.close()


async def test_one_runner_serves_a_key_and_runs_keep_their_order(scene: Scene) -> None:
    for name in ("r1", "r2"):
        scene.runtime.deliver(run_request(run_id=name))
    await settle()
    assert scene.runners.notes == ["open room", "run r1"]
    scene.runners.gate.set()
    await settle()
    assert scene.runners.notes == ["open room", "run r1", "run r2"]
    assert scene.operations() == [("r1", DONE), ("r2", DONE)]


async def test_an_idle_runner_is_let_go_of_and_made_again(scene: Scene) -> None:
    scene.runners.gate.set()
    evicting = asyncio.create_task(scene.runtime.evict())
    scene.runtime.deliver(run_request(run_id="r1"))
    await scene.clock.advance(IDLE - 1)
    assert scene.runners.notes == ["open room", "run r1"]
    await scene.clock.advance(IDLE)
    assert scene.runners.notes[2:] == ["close room"]
    scene.runtime.deliver(run_request(run_id="r2"))
    await settle()
    assert scene.runners.notes[3:] == ["open room", "run r2"]
    evicting.cancel()


async def test_a_session_that_cannot_be_closed_well_keeps_nothing_else_from_being_let_go_of(scene: Scene) -> None:
    scene.runners.gate.set()
    evicting = asyncio.create_task(scene.runtime.evict())
    for key in ("stuck", "room"):
        scene.runtime.deliver(run_request(run_id=f"r-{key}", session_key=key))
    await scene.clock.advance(2 * IDLE)
    assert [note for note in scene.runners.notes if note.startswith("close")] == ["close stuck", "close room"]
    assert not evicting.done()
    scene.runtime.deliver(run_request(run_id="r2", session_key="stuck"))
    await settle()
    assert scene.operations()[-1] == ("r2", DONE)
    evicting.cancel()


async def test_a_busy_runner_is_kept_however_long_it_takes(scene: Scene) -> None:
    evicting = asyncio.create_task(scene.runtime.evict())
    scene.runtime.deliver(run_request(run_id="r1"))
    await scene.clock.advance(10 * IDLE)
    assert scene.runners.notes == ["open room", "run r1"]
    evicting.cancel()


async def test_a_session_that_cannot_be_opened_is_told_and_the_next_run_tries_again(scene: Scene) -> None:
    scene.runners.gate.set()
    scene.runners.fault = StorageFailed("'s.jsonl' failed: Input/output error")
    scene.runtime.deliver(run_request(run_id="r1"))
    await settle()
    text = (
        "The office's records cannot be used: 's.jsonl' failed: Input/output error. "
        "Start afresh with /new, or tell an admin."
    )
    assert scene.operations() == [
        ("r1", Diagnostic(text=text)),
        ("r1", RunFinished(outcome=RunOutcome.FAILED, detail=text)),
    ]
    scene.runners.fault = None
    scene.runtime.deliver(run_request(run_id="r2"))
    await settle()
    assert scene.operations()[-1] == ("r2", DONE)


async def test_a_full_disk_is_named(scene: Scene) -> None:
    fault = StorageFailed("'s.jsonl' failed")
    fault.__cause__ = OSError(28, "No space left on device")
    scene.runners.fault = fault
    scene.runtime.deliver(run_request(run_id="r1"))
    await settle()
    _, diagnostic = scene.operations()[0]
    assert isinstance(diagnostic, Diagnostic)
    assert diagnostic.text.startswith("The office's disk is full")


async def test_a_reset_closes_the_session_first(scene: Scene) -> None:
    scene.runners.gate.set()
    scene.runtime.deliver(run_request(run_id="r1"))
    await settle()
    assert await scene.runtime.reset(SessionKey("room")) == "new.jsonl"
    assert scene.runners.notes == ["open room", "run r1", "close room", "reset room"]


async def test_a_run_that_was_handed_back_may_come_again_and_one_that_is_over_may_not(scene: Scene) -> None:
    scene.runners.gate.set()
    scene.runtime.deliver(run_request(run_id="r1"))
    await settle()
    scene.runtime.ended("r1", RunOutcome.COMPLETED)
    assert scene.runtime.run_ids == ()
    scene.runtime.deliver(run_request(run_id="r1"))
    assert scene.runtime.run_ids == ()
    scene.runtime.ended("r2", RunOutcome.HANDED_BACK)
    scene.runtime.deliver(run_request(run_id="r2"))
    assert scene.runtime.run_ids == ("r2",)
    await settle()


async def test_a_run_that_is_cut_before_its_first_step_still_ends(scene: Scene) -> None:
    scene.runtime.deliver(run_request(run_id="r1"))
    await asyncio.sleep(0)  # its task is made, and has not begun
    scene.runtime.stop("r1")
    scene.runtime.deliver(run_request(run_id="r2"))
    scene.runners.gate.set()
    await settle()
    assert scene.operations() == [("r1", RunFinished(outcome=RunOutcome.STOPPED)), ("r2", DONE)]
    assert scene.runners.notes == ["open room", "run r2"]


async def test_a_drain_before_a_run_takes_its_first_step_hands_it_back(scene: Scene) -> None:
    scene.runtime.deliver(run_request(run_id="r1"))
    await asyncio.sleep(0)
    scene.runtime.drain()
    await settle()
    assert scene.operations() == [("r1", RunFinished(outcome=RunOutcome.HANDED_BACK))]


async def test_a_run_that_is_cut_while_a_reset_has_its_session_never_begins(scene: Scene) -> None:
    scene.runners.resetting.clear()
    reset = asyncio.create_task(scene.runtime.reset(SessionKey("room")))
    await settle()
    scene.runtime.deliver(run_request(run_id="r1"))
    await settle()
    scene.runtime.stop("r1")
    scene.runners.resetting.set()
    await reset
    await settle()
    assert scene.operations() == [("r1", RunFinished(outcome=RunOutcome.STOPPED))]
    assert scene.runners.notes == ["reset room"]
