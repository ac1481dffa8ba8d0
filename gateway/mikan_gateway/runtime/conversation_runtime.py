"""The gateway's queue: every message durable and numbered, every run in its turn (behaviour "Intake")."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from mikan_api.identity import OfficeKey
from mikan_api.kill_points import Step
from mikan_api.messaging import ConversationEvent, ConversationMessage, MessagingInfo
from mikan_api.session_keys import SessionKey
from mikan_api.wire import Stop
from mikan_gateway.ports import InboundMessage, Offices, OwnAnswer, RunOutput, RunRecord, StopOutcome, Submitted
from mikan_gateway.runtime.answers import OwnAnswers, Prepared
from mikan_gateway.runtime.board import Item, OfficeWork, WorkBoard
from mikan_gateway.runtime.clock import Clock, SystemClock
from mikan_gateway.runtime.desk import AgentDesk
from mikan_gateway.runtime.keeper import OfficeKeeper
from mikan_gateway.runtime.output import BlobBin, OutputPump
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.incarnations import Incarnation, current_incarnations
from mikan_gateway.storage.messages import Accepted, accept_message, last_number, log_bot_message
from mikan_gateway.storage.operations import StoredOperation, outputs
from mikan_gateway.storage.runs import StoredRun, add_run, request_stop, runs_with_output, unfinished_runs

logger = logging.getLogger(__name__)

DRAIN = 25.0
"""Seconds that a shutdown waits for runs under way."""


class ConversationRuntime:
    """Implements `RunQueue`. ``desk`` is what agents' connections are served by."""

    def __init__(
        self,
        database: Database,
        offices: Offices,
        output: RunOutput,
        blobs: BlobBin,
        clock: Clock | None = None,
        dropped: Callable[[], None] = lambda: None,
        counted: Callable[[RunRecord, StoredOperation], None] = lambda _run, _operation: None,
    ) -> None:
        """``dropped`` is called for each operation that a fault of ours keeps from being shown, ``counted`` with each
        that is to be shown."""
        self._database = database
        self._clock = clock or SystemClock()
        self._board = WorkBoard()
        self._pump = OutputPump(database, output, blobs, self._clock, dropped, counted)
        self._answers = OwnAnswers(database, self._pump, self._clock)
        self.keeper = OfficeKeeper(self._board, database, offices, output, self._pump, self._clock)
        self.desk = AgentDesk(self._board, database, offices, output, self._pump, self.keeper, self._clock, blobs)

    async def start(self) -> None:
        """Take up what an earlier process left. Offices must have been listed.

        Raises:
            StorageError: the database failed.
        """
        runs, agents, shown, records = await self._database.read(_load)
        self._board.load(runs, agents, self._clock.monotonic())
        for operation in shown:
            record = records.get(operation.run_id)
            if record is not None:
                self._pump.add(record, operation)
        for work in self._board:
            self.keeper.want(work)
        self.keeper.start()
        logger.info("work taken up", extra={"runs": len(runs), "operations": len(shown)})

    async def submit(self, message: InboundMessage, run: bool) -> Submitted:
        """Number, store and, if ``run``, queue a message, in one transaction. Durable when it returns.

        Raises:
            StorageError: the database failed; nothing was stored.
        """
        run_id = f"run-{secrets.token_hex(12)}" if run else None
        now = self._clock.now()
        submitted: list[Submitted] = []
        await self._database.write(
            lambda connection: accept_message(connection, message, run_id, now),
            lambda accepted: submitted.append(self._accepted(message.event.address.key, accepted)),
            Step.MESSAGE_COMMIT,
        )
        return submitted[0]

    async def log_posted(self, office: OfficeKey, message: ConversationMessage) -> int:
        """Number a message that the bot posted, once per message id; its log number.

        Raises:
            StorageError: the database failed, or the office is unknown.
        """
        now = self._clock.now()
        accepted = await self._database.write(
            lambda connection: log_bot_message(connection, office, message, now),
            lambda accepted: self._logged(office, accepted),
            Step.POSTED_COMMIT,
        )
        return accepted.number

    async def answered(self, message: InboundMessage) -> bool:
        """Whether a message has got an answer of our own.

        Raises:
            StorageError: the database failed.
        """
        return await self._answers.answered(message)

    async def answer(self, answer: OwnAnswer) -> None:
        """Answer a message, once however often this is called; durable when it returns.

        Raises:
            StorageError: the database failed; nothing was stored.
        """
        await self._answers.answer(answer)

    async def stop(
        self,
        office: OfficeKey,
        session_key: SessionKey,
        top_level: bool,
        answer: Callable[[StopOutcome], OwnAnswer] | None = None,
    ) -> StopOutcome:
        """Stop that session's run, or, from top level with no such run, the only running one of the office.

        What ``answer`` says of the outcome is stored in the same transaction.

        Raises:
            StorageError: the database failed; nothing was stopped.
        """
        work = self._board.find(office)
        item, candidates = (None, []) if work is None else _meant(work, session_key, top_level)
        outcome = StopOutcome(() if item is None else (item.record,), tuple(other.record for other in candidates))
        told = None if answer is None else answer(outcome)
        if work is not None and item is not None:
            await self._stop(work, item, None if told is None else self._answers.prepare(told))
        elif told is not None:
            await self._answers.answer(told)
        return outcome

    async def reset(self, event: ConversationEvent, info: MessagingInfo) -> None:
        """Abort what the session of a message runs or has queued, and begin a fresh one before whatever comes next.

        A sleeping office is not woken for it: the agent is told when it next connects. Should it fail, that is said
        below the message.

        Raises:
            StorageError: the database failed.
        """
        office, session_key = event.address.key, event.session_key
        work = self._board.office(office)
        queued = [item for item in work.sessions.get(session_key, ()) if item.is_run]
        run_id, now = f"reset-{secrets.token_hex(12)}", self._clock.now()
        reset = StoredRun(run_id, office, session_key, "reset", 0, 0, now, event, info)
        for item in queued:
            if item.under_way:
                await self._stop(work, item)
        undelivered = [item.run.run_id for item in queued if not item.under_way and item.run.run_id in work.items]
        await self.desk.end_undelivered(work, undelivered)

        def store(connection: Connection) -> StoredRun:
            # What was written before it is none of the fresh session's business.
            return add_run(connection, replace(reset, number=last_number(connection, office)))

        await self._database.write(store, self._queue_reset, Step.RESET_COMMIT)

    def busy(self, office: OfficeKey) -> int:
        """How many sessions of an office have a run under way or queued."""
        work = self._board.find(office)
        return 0 if work is None else work.busy

    async def drain(self, patience: float = DRAIN) -> bool:
        """Begin no further run and wait for those under way; whether all of them ended in time.

        Nothing is lost either way: agents keep working and report to the next process.
        """
        self.desk.draining = True
        try:
            async with asyncio.timeout(patience):
                while self._board.under_way():
                    self._board.changed.clear()
                    await self._board.changed.wait()
                await self._pump.idle()
        except TimeoutError:
            logger.warning("shutting down with runs under way", extra={"runs": self._board.under_way()})
            return False
        return True

    async def close(self) -> None:
        """Stop; everything unfinished is in the database."""
        await self.keeper.close()
        await self.desk.close()
        await self._pump.close()

    def _accepted(self, office: OfficeKey, accepted: Accepted) -> Submitted:
        self._logged(office, accepted)
        if accepted.run is None:
            return Submitted(accepted.entry is None, accepted.number, accepted.run_id)
        return Submitted(False, accepted.number, accepted.run_id, self._queue(accepted.run))

    def _logged(self, office: OfficeKey, accepted: Accepted) -> None:
        work = self._board.find(office)
        if work is not None and accepted.entry is not None:
            work.log(accepted.entry)
            work.wake()

    def queue(self, run: StoredRun) -> None:
        """Take up a run that has been stored as queued: after its commit."""
        self._queue(run)

    def show(self, run: StoredRun, operations: Sequence[StoredOperation]) -> None:
        """Show what has been stored of a run that was over before it began: after its commit."""
        for operation in operations:
            self._pump.add(run.record, operation)

    def _queue(self, run: StoredRun) -> int:
        work = self._board.office(run.office)
        ahead = work.add(Item(run, self._clock.monotonic()))
        self._board.changed.set()
        self.keeper.want(work)
        work.wake()
        return ahead

    def _queue_reset(self, reset: StoredRun) -> None:
        self._queue(reset)

    async def _stop(self, work: OfficeWork, item: Item, answer: Prepared | None = None) -> None:
        run_id = item.run.run_id
        if not item.under_way:
            await self.desk.end_undelivered(work, [run_id], answer)
            return

        def store(connection: Connection) -> None:
            request_stop(connection, run_id)
            if answer is not None:
                answer.store(connection)

        def stored(_: None) -> None:
            item.stop()
            if work.link is not None:
                work.link.send(Stop(run_id=run_id))
            if answer is not None:
                answer.show()

        # The agent is told once that is durable: else the same `stop`, delivered again, would find nothing to stop.
        await self._database.write(store, stored, Step.STOP_COMMIT)


def _meant(work: OfficeWork, session_key: SessionKey, top_level: bool) -> tuple[Item | None, list[Item]]:
    """The run that a `stop` means, or, where that can't be told, those that it might mean."""
    item = work.head(session_key)
    running = [] if item is not None or not top_level else work.running()
    return (None, running) if len(running) > 1 else (item or next(iter(running), None), [])


def _load(
    connection: Connection,
) -> tuple[list[StoredRun], list[Incarnation], list[StoredOperation], dict[str, RunRecord]]:
    records = {run_id: run.record for run_id, run in runs_with_output(connection).items()}
    return unfinished_runs(connection), current_incarnations(connection), outputs(connection), records
