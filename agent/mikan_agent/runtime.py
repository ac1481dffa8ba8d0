"""Which runs there are, and when each may go on: serial for one session key, concurrent across keys.

Caches one runner per session key and lets go of idle ones. The gateway serialises too; this is the check. What a run
does is the runner's affair (`harness.runner`).
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from mikan_agent.answer_text import AnswerText
from mikan_agent.clock import Clock
from mikan_agent.harness import faults
from mikan_agent.harness.responder import Responder
from mikan_agent.harness.settle import settled
from mikan_agent.run import ActiveRun, Cut, Phase
from mikan_api.responder import RunFinished, RunOutcome
from mikan_api.session_keys import SessionKey, conversation_id_of, thread_suffix_of
from mikan_api.wire import RunRequest

logger = logging.getLogger(__name__)

IDLE = 600.0
"""Seconds after which a runner without work is let go of."""
_REMEMBERED = 1_000


class Runner(Protocol):
    """Carries out the runs of one session."""

    async def run(self, run: ActiveRun) -> RunFinished:
        """To its end; says everything but the `RunFinished` that it returns."""

    async def close(self) -> None:
        """Let go of the session file."""


class RunnerSource(Protocol):
    """Opens and resets sessions."""

    async def open(self, key: SessionKey) -> Runner:
        """The runner of a session key, made where there was none.

        Raises:
            StorageError: its session cannot be used.
        """

    async def exists(self, key: SessionKey) -> bool:
        """Whether the session has a file already."""

    async def reset(self, key: SessionKey, log_number: int) -> str:
        """Begin afresh after this entry of the log; the session must be closed. Returns the new file's name."""


class LogWaiter(Protocol):
    """Knows what is in the platform log."""

    async def reached(self, number: int) -> None:
        """Wait until this entry is on disk."""

    async def posted(self, key: SessionKey, after: int) -> None:
        """Wait a little for a post of ours for this session that comes after an entry."""


class _Lane:
    """The runs of one session key, in order."""

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.waiting: deque[ActiveRun] = deque()
        self.current: ActiveRun | None = None
        self.turn = asyncio.Lock()
        """Held by whoever uses the session: a run, or a reset."""
        self.runner: Runner | None = None
        self.worker: asyncio.Task[None] | None = None
        self.used = 0.0


class Runtime:
    """All runs of an office."""

    def __init__(
        self,
        runners: RunnerSource,
        log: LogWaiter,
        clock: Clock,
        respond: Callable[[str], Responder],
    ) -> None:
        """``respond`` makes the responder of a run id."""
        self._runners, self._log, self._clock, self._respond = runners, log, clock, respond
        self._lanes: dict[SessionKey, _Lane] = {}
        self._runs: dict[str, ActiveRun] = {}
        self._over: OrderedDict[str, None] = OrderedDict()
        self._draining = False
        self._acknowledged = asyncio.Event()
        self._idle = asyncio.Condition()

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Every run whose end is not acknowledged."""
        return tuple(self._runs)

    @property
    def running(self) -> list[SessionKey]:
        """Session keys with a run under way or waiting."""
        return [lane.key for lane in self._lanes.values() if lane.current or lane.waiting]

    def texts(self) -> list[AnswerText]:
        """The answers that are streaming now."""
        return [run.responder.text for run in self._runs.values() if run.phase is Phase.BEGUN]

    def deliver(self, request: RunRequest) -> None:
        """Take a run; one that is known is ignored, since deliveries repeat."""
        if request.run_id in self._runs or request.run_id in self._over:
            return
        run = ActiveRun(request, self._respond(request.run_id))
        self._runs[run.run_id] = run
        if self._draining:
            _dismiss(run, Cut.HANDED_BACK)
            return
        lane = self._lanes.setdefault(request.session_key, _Lane(request.session_key))
        lane.waiting.append(run)
        if lane.worker is None:
            lane.worker = asyncio.create_task(self._work(lane))

    def ended(self, run_id: str, outcome: RunOutcome) -> None:
        """The gateway has a run's end. One that was handed back may come again, elsewhere or here."""
        self._runs.pop(run_id, None)
        self._acknowledged.set()
        if outcome is not RunOutcome.HANDED_BACK or self._draining:
            self._over[run_id] = None
            while len(self._over) > _REMEMBERED:
                self._over.popitem(last=False)

    def stop(self, run_id: str) -> None:
        """Cut a run short; harmless if it is over or unknown."""
        run = self._runs.get(run_id)
        if run is not None:
            self._end(run, Cut.STOPPED)

    async def reset(self, key: SessionKey, log_number: int = 0) -> str:
        """Stop what runs for a key and begin a fresh session; waiting runs go to that one.

        Raises:
            StorageError: the session could not be reset.
        """
        lane = self._lanes.setdefault(key, _Lane(key))
        if lane.current is not None:
            lane.current.cut_short(Cut.STOPPED)
        async with lane.turn:
            await self._close(lane)
            return await self._runners.reset(key, log_number)

    def drain(self) -> None:
        """Take no new run; hand back every run of which nothing is on disk."""
        self._draining = True
        for run in self._runs.values():
            if run.phase is Phase.WAITING:
                self._end(run, Cut.HANDED_BACK)

    def _end(self, run: ActiveRun, why: Cut) -> None:
        lane = self._lanes.get(run.request.session_key)
        if lane is not None and run in lane.waiting:
            lane.waiting.remove(run)
            _dismiss(run, why)
        else:
            run.cut_short(why)

    async def drained(self) -> None:
        """Wait until no run is under way."""
        async with self._idle:
            await self._idle.wait_for(lambda: not self.running)

    async def acknowledged(self) -> None:
        """Wait until the gateway has every run's end."""
        while self._runs:
            self._acknowledged.clear()
            await self._acknowledged.wait()

    def end_all(self) -> None:
        """Cut what still runs: the process ends."""
        for run in self._runs.values():
            self._end(run, Cut.PROCESS_ENDS)

    async def close(self) -> None:
        """Let go of every session."""
        tasks = {lane.worker for lane in self._lanes.values()} | {run.task for run in self._runs.values()}
        pending = {task for task in tasks if task is not None and not task.done()}
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for lane in self._lanes.values():
            await self._close(lane)

    async def evict(self) -> None:
        """Let go of runners that have been idle for long, until cancelled."""
        while True:
            await self._clock.sleep(IDLE / 10)
            for lane in list(self._lanes.values()):
                if lane.worker is not None or self._clock.monotonic() - lane.used <= IDLE:
                    continue
                async with lane.turn:
                    await self._close(lane)
                if lane.worker is None and not lane.turn.locked():
                    del self._lanes[lane.key]

    async def _close(self, lane: _Lane) -> None:
        runner, lane.runner = lane.runner, None
        if runner is None:
            return
        try:
            await runner.close()
        except Exception:
            # A full disk, say: that must not end the eviction, and with it this process and all that runs in it.
            logger.exception("a session was not closed well", extra={"session": lane.key})

    async def _work(self, lane: _Lane) -> None:
        try:
            while lane.waiting:
                run = lane.current = lane.waiting.popleft()
                async with lane.turn:
                    await self._supervise(lane, run)
                lane.current = None
                lane.used = self._clock.monotonic()
        finally:
            lane.worker = None
            async with self._idle:
                self._idle.notify_all()

    async def _supervise(self, lane: _Lane, run: ActiveRun) -> None:
        """Have a run done in a task of its own, which a cut cancels."""
        if run.cut is None:
            run.task = asyncio.create_task(self._carry_out(lane, run))
            await asyncio.wait({run.task})
        if run.cut is not None and run.phase is Phase.WAITING:
            # It was cut while it waited for its turn, or before its task's first step: no code of it has run.
            run.phase = Phase.OVER
            await run.responder.emit(_cut_before_it_began(run))

    async def _carry_out(self, lane: _Lane, run: ActiveRun) -> None:
        try:
            finished = await self._outcome(lane, run)
        except asyncio.CancelledError:
            if run.cut is None:
                raise
            finished = _cut_before_it_began(run)
        except Exception as error:
            # The session or the log cannot be used: nothing of the run is recorded, but people must hear of it.
            logger.exception("run could not begin", extra={"run": run.run_id})
            run.phase = Phase.ENDING
            fault = faults.storage_fault(error) if faults.is_storage_fault(error) else faults.INTERNAL
            await run.responder.diagnostic(fault)
            finished = RunFinished(outcome=RunOutcome.FAILED, detail=fault)
        run.phase = Phase.OVER
        await run.responder.emit(finished)
        logger.info("run over", extra={"run": run.run_id, "outcome": finished.outcome.value})

    async def _outcome(self, lane: _Lane, run: ActiveRun) -> RunFinished:
        await self._log.reached(run.request.log_number)
        await self._parent_sealed(lane.key)
        runner = lane.runner
        if runner is None:
            runner = await settled(self._open(lane))
        return await runner.run(run)

    async def _open(self, lane: _Lane) -> Runner:
        lane.runner = await self._runners.open(lane.key)
        return lane.runner

    async def _parent_sealed(self, key: SessionKey) -> None:
        """A new thread grows from what its parent's session says once the parent's run is over."""
        if thread_suffix_of(key) is None:
            return
        parent = self._lanes.get(SessionKey(conversation_id_of(key)))
        if parent is None or (run := parent.current) is None or await self._runners.exists(key):
            return
        async with parent.turn:
            pass
        if run.responder.text.whole.strip():
            await self._log.posted(parent.key, run.request.log_number)


def _dismiss(run: ActiveRun, why: Cut) -> None:
    """End a run that nothing has been done for."""
    run.cut, run.phase = why, Phase.OVER
    run.task = asyncio.create_task(run.responder.emit(_cut_before_it_began(run)))


def _cut_before_it_began(run: ActiveRun) -> RunFinished:
    stopped = run.cut is Cut.STOPPED
    return RunFinished(outcome=RunOutcome.STOPPED if stopped else RunOutcome.HANDED_BACK)
