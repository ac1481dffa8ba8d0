"""Where agents come for work: who speaks for an office, what it is given, and what it reports.

Each report is committed before anything is changed in memory or shown to anybody (`mikan_api.wire`).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection

from mikan_api.base import OpenModel
from mikan_api.events import describe
from mikan_api.exceptions import InvalidValue
from mikan_api.identity import OfficeKey
from mikan_api.kill_points import Step
from mikan_api.messaging import LogEntry
from mikan_api.tokens import OfficeClaims
from mikan_api.wire import (
    MAX_LOG_BATCH,
    Answer,
    Delta,
    Hello,
    Operation,
    Reply,
    Request,
    Reset,
    Run,
    RunRequest,
    Stop,
)
from mikan_gateway import close_codes
from mikan_gateway.exceptions import AgentRefused, ClusterError, SpoolRefused, StorageError, UserFault
from mikan_gateway.ports import Offices, OfficeView, RunOutput
from mikan_gateway.runtime.answers import Prepared
from mikan_gateway.runtime.board import AgentLink, Item, OfficeWork, WorkBoard
from mikan_gateway.runtime.clock import Clock
from mikan_gateway.runtime.keeper import OfficeKeeper
from mikan_gateway.runtime.output import BlobBin, OutputPump
from mikan_gateway.runtime.report import Report, read_report
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.incarnations import Registered, record_operations, register
from mikan_gateway.storage.messages import log_entries, note_written
from mikan_gateway.storage.operations import StoredOperation
from mikan_gateway.storage.runs import (
    failed_reset_notice,
    finish_reset,
    finish_undelivered,
    stopped_operation,
)

logger = logging.getLogger(__name__)

MAX_BATCH_BYTES = 1024 * 1024
"""Of log entries in one frame; a frame may be four times that."""
MAX_HISTORY = 100
MAX_NUMBER = 2**53
"""No log entry has a larger one, and no database could be asked for it."""
MAX_REPLIES = 2_000
"""Replies remembered for requests that come again."""

RequestMethod = Callable[[OfficeClaims, str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Does what an agent asks for: whose it is, the request's id, its params; returns the result.

Raises `UserFault`, `ClusterError` or a model's `ValidationError`, which the agent is told, and `StorageError`.
"""


class AgentDesk:
    """Serves the agents' connections."""

    def __init__(
        self,
        board: WorkBoard,
        database: Database,
        offices: Offices,
        output: RunOutput,
        pump: OutputPump,
        keeper: OfficeKeeper,
        clock: Clock,
        blobs: BlobBin,
    ) -> None:
        self._board, self._database, self._offices, self._output = board, database, offices, output
        self._pump, self._keeper, self._clock, self._blobs = pump, keeper, clock, blobs
        self._tasks: set[asyncio.Task[None]] = set()
        self._methods: dict[str, RequestMethod] = {"history": self._history}
        self._replies: OrderedDict[tuple[OfficeKey, str], Reply] = OrderedDict()
        self.draining = False
        """Whether no run may begin any more."""

    async def attach(self, link: AgentLink, claims: OfficeClaims, hello: Hello) -> int:
        """Let an agent speak for its office; the number of its last durable operation.

        Raises:
            AgentRefused: another one speaks for the office now.
            StorageError: the database failed.
        """
        registered = await self._database.write(
            lambda connection: register(connection, claims, hello, self._clock.now()),
            lambda registered: self._attached(link, hello, registered),
            Step.AGENT_COMMIT,
        )
        return registered.operation_number

    def detach(self, link: AgentLink) -> None:
        """A connection is gone."""
        work = self._board.find(link.claims.office)
        if work is not None and work.link is link:
            work.link, work.lost_since = None, self._clock.monotonic()
            if work.written:
                self._aside(self._note_written(work.key, work.written))
            self._board.tidy(work)

    def written(self, link: AgentLink, number: int) -> None:
        """An agent has the log on disk up to an entry."""
        work = self._board.find(link.claims.office)
        if work is not None and work.link is link:
            work.written = min(number, work.last_number)

    async def log_after(self, office: OfficeKey, number: int) -> tuple[LogEntry, ...]:
        """The next log entries, as many as one frame takes; empty if there are none.

        Raises:
            StorageError: the database failed.
        """
        work = self._board.find(office)
        if work is None or number >= work.last_number:
            return ()
        recent = work.recent_after(number)
        if recent is not None and sum(len(entry.message.text) for entry in recent) < MAX_BATCH_BYTES // 4:
            return recent[:MAX_LOG_BATCH]
        return await self._database.read(
            lambda connection: log_entries(connection, office, number, MAX_LOG_BATCH, MAX_BATCH_BYTES)
        )

    def take(self, link: AgentLink, log_number: int) -> list[OpenModel]:
        """What the agent is to be given now, having the log up to ``log_number``. It counts as given."""
        work = self._board.find(link.claims.office)
        if work is None or work.link is not link:
            return []
        view = self._offices.get(work.key)
        if view is None or view.suspended or self.draining:
            return []
        return [frame for item in work.heads() if (frame := self._give(work, item, view, log_number)) is not None]

    async def commit(self, link: AgentLink, operations: Sequence[Operation]) -> int:
        """Make operations durable, in order; the number up to which they now are.

        Raises:
            AgentRefused: a number is missing, or another agent has taken over.
            StorageError: the database failed; none of them is durable.
        """
        work = self._board.find(link.claims.office)
        if work is None or work.link is not link:
            raise AgentRefused(close_codes.SUPERSEDED, "another connection of this office has taken over")
        report = read_report(work, link.incarnation, operations)
        if report.last > report.previous:
            await self._database.write(
                lambda connection: record_operations(
                    connection,
                    work.key,
                    link.incarnation,
                    (report.previous, report.last),
                    report.shown,
                    report.changes,
                    report.usage,
                ),
                lambda _: self._reported(work, link.incarnation, report),
                Step.REPORT_COMMIT,
            )
        if report.gap:
            raise AgentRefused(close_codes.PROTOCOL_FAULT, f"operation {report.last + 1} is missing")
        return report.last

    def delta(self, link: AgentLink, delta: Delta) -> None:
        """Streamed text; ignored for a run that is not under way here."""
        work = self._board.find(link.claims.office)
        item = None if work is None or work.link is not link else work.items.get(delta.run_id)
        if item is not None and item.is_run and item.delivered_to == link.incarnation:
            self._output.delta(item.record, delta.offset, delta.text)

    async def answered(self, link: AgentLink, answer: Answer) -> None:
        """An answer to a reset; others are not awaited any more.

        Raises:
            StorageError: the database failed.
        """
        work = self._board.find(link.claims.office)
        item = None if work is None or work.link is not link else work.items.get(answer.id)
        if work is None or item is None or item.is_run or item.delivered_to != link.incarnation:
            return
        notices = []
        if answer.error:
            logger.warning("a session was not reset", extra={"office": work.key, "error": answer.error[:300]})
        if answer.error and item.run.event is not None:
            notices = [failed_reset_notice(work.key, answer.id, answer.error)]
        await self._database.write(
            lambda connection: finish_reset(connection, answer.id, notices),
            lambda _: self._reset(work, item, notices),
            Step.RESET_DONE_COMMIT,
        )

    async def fetched(self, link: AgentLink, attachment_ids: Sequence[str]) -> None:
        """An office has these attachments: they need not wait here any more."""
        for attachment_id in attachment_ids:
            try:
                await self._blobs.discard_attachment(link.claims.office, attachment_id)
            except (OSError, SpoolRefused) as error:
                logger.warning("an attachment stays in the spool: %s", error, extra={"office": link.claims.office})

    def offer(self, methods: Mapping[str, RequestMethod]) -> None:
        """Have agents' requests of these methods done."""
        self._methods.update(methods)

    async def request(self, link: AgentLink, request: Request) -> Reply:
        """Do what an agent asks for; the same request again gets the same reply.

        Raises:
            StorageError: the database failed.
        """
        known = self._replies.get((link.claims.office, request.id))
        if known is not None:
            return known
        method = self._methods.get(request.method)
        if method is None:
            return Reply(id=request.id, error=f"this gateway does not offer {request.method!r}")
        try:
            reply = Reply(id=request.id, result=await method(link.claims, request.id, request.params))
        except (UserFault, InvalidValue) as error:
            reply = Reply(id=request.id, error=str(error))
        except ValidationError as error:
            reply = Reply(id=request.id, error=f"{request.method}: {describe(error)}")
        except ClusterError as error:
            logger.warning("a request of an agent failed: %s", error, extra={"office": link.claims.office})
            return Reply(id=request.id, error="the cluster can't be reached or refuses; try again later")
        if request.method != "history":
            self._remember(link.claims.office, reply)
        return reply

    def _remember(self, office: OfficeKey, reply: Reply) -> None:
        self._replies[office, reply.id] = reply
        while len(self._replies) > MAX_REPLIES:
            self._replies.popitem(last=False)

    async def _history(self, claims: OfficeClaims, _: str, params: dict[str, Any]) -> dict[str, Any]:
        after, limit = params.get("after", 0), params.get("limit", MAX_HISTORY)
        if not isinstance(after, int) or not isinstance(limit, int) or not _is_asked_well(after, limit):
            raise UserFault(f"history takes 'after' and 'limit' (1 to {MAX_HISTORY})")
        entries = await self._database.read(
            lambda connection: log_entries(connection, claims.office, after, limit, MAX_BATCH_BYTES)
        )
        return {"entries": [entry.to_json_dict() for entry in entries]}

    async def end_undelivered(self, work: OfficeWork, run_ids: Sequence[str], answer: Prepared | None = None) -> None:
        """Stop runs that no agent has been given, and store an answer with that.

        Raises:
            StorageError: the database failed; they are as they were.
        """
        ending = [work.items[run_id] for run_id in run_ids if not work.items[run_id].ending]
        for item in ending:
            item.ending = True

        def store(connection: Connection) -> None:
            finish_undelivered(connection, work.key, [item.run.run_id for item in ending])
            if answer is not None:
                answer.store(connection)

        def stored(_: None) -> None:
            self._stopped(work, ending)
            if answer is not None:
                answer.show()

        try:
            await self._database.write(store, stored, Step.QUEUED_STOP_COMMIT)
        except StorageError:
            for item in ending:
                item.ending = False
            raise

    async def close(self) -> None:
        """Wait for what was begun on the side."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _attached(self, link: AgentLink, hello: Hello, registered: Registered) -> None:
        work = self._board.office(registered.agent.office)
        if work.link is not None and work.link is not link:
            work.link.close(close_codes.SUPERSEDED, "another connection of this office has taken over")
        work.link, work.agent = link, registered.agent
        work.operation_number = registered.operation_number
        work.last_number = max(work.last_number, registered.last_number)
        self._keeper.report_lost(work, registered.cut_off)
        for item in work.items.values():
            item.delivered_to = link.incarnation if item.run.run_id in hello.runs else None
            if item.delivered_to and item.run.stop_requested:
                link.send(Stop(run_id=item.run.run_id))
        for run_id in hello.runs:
            if run_id not in work.items:
                link.send(Stop(run_id=run_id))
        self._keeper.touch(work)

    def _give(self, work: OfficeWork, item: Item, view: OfficeView, log_number: int) -> OpenModel | None:
        assert work.link is not None  # noqa: S101  the caller has checked it
        incarnation = work.link.incarnation
        if item.ending or item.delivered_to == incarnation or item.run.started_by or item.refused_by == incarnation:
            return None
        if not item.is_run:
            item.delivered_to = incarnation
            return Reset(id=item.run.run_id, session_key=item.run.session_key, log_number=item.run.number)
        if item.run.stop_requested:
            self._aside(self._end_stopped(work, item.run.run_id))
            return None
        if item.run.number > log_number:
            return None
        item.delivered_to = incarnation
        if item.told:
            self._aside(self._keeper.told(item, ""))
        return Run(run=_request(item, view))

    async def _note_written(self, office: OfficeKey, number: int) -> None:
        try:
            await self._database.write(
                lambda connection: note_written(connection, office, number), step=Step.LOG_WRITTEN_COMMIT
            )
        except StorageError as error:
            # Its next hello says it again.
            logger.warning("how far a log is written is not noted: %s", error, extra={"office": office})

    async def _end_stopped(self, work: OfficeWork, run_id: str) -> None:
        try:
            await self.end_undelivered(work, [run_id])
        except StorageError as error:
            logger.warning("a stopped run has not ended yet: %s", error, extra={"run": run_id})

    def _reported(self, work: OfficeWork, incarnation: str, report: Report) -> None:
        work.operation_number = max(work.operation_number, report.last)
        records = {one.run_id: work.items[one.run_id].record for one in report.shown if one.run_id in work.items}
        for change in report.changes:
            item = work.items.get(change.run_id)
            if item is None:
                continue
            if change.state == "started":
                item.start(incarnation)
                records[change.run_id] = item.record
            elif change.state == "queued":
                item.delivered_to, item.refused_by, item.since = None, incarnation, self._clock.monotonic()
            elif change.state == "finished":
                work.remove(change.run_id)
        for one in report.shown:
            if one.run_id in records:
                self._pump.add(records[one.run_id], one)
        self._keeper.report_lost(work, [change.run_id for change in report.changes if change.state == "cut_off"])
        if report.changes:
            self._keeper.touch(work)
            work.wake()

    def _reset(self, work: OfficeWork, item: Item, notices: Sequence[StoredOperation]) -> None:
        for notice in notices:
            self._pump.add(item.record, notice)
        self._ended(work, item.run.run_id)

    def _stopped(self, work: OfficeWork, items: Sequence[Item]) -> None:
        for item in items:
            self._pump.add(item.record, stopped_operation(work.key, item.run.run_id))
            self._ended(work, item.run.run_id)

    def _ended(self, work: OfficeWork, run_id: str) -> None:
        work.remove(run_id)
        self._keeper.touch(work)
        work.wake()
        self._board.tidy(work)

    def _aside(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _request(item: Item, view: OfficeView) -> RunRequest:
    record = item.record
    return RunRequest(
        run_id=record.run_id,
        session_key=record.session_key,
        event=record.event,
        log_number=item.run.number,
        kind="scheduled" if item.run.kind == "scheduled" else "message",
        info=record.info,
        llm=view.llm,
        budgets=view.budgets,
        door_policy=view.door_policy,
        queued_at=datetime.fromtimestamp(item.run.queued_at, UTC),
    )


def _is_asked_well(after: int, limit: int) -> bool:
    return 0 <= after <= MAX_NUMBER and 0 < limit <= MAX_HISTORY
