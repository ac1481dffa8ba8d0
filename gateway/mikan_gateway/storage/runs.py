"""Runs and resets in the order they are to be done, and how each changes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, bindparam, insert, select, update

from mikan_api.identity import OfficeKey
from mikan_api.messaging import ConversationEvent, MessagingInfo
from mikan_api.responder import RunFinished, RunOutcome
from mikan_api.session_keys import SessionKey
from mikan_gateway.ports import RunRecord
from mikan_gateway.storage.operations import StoredOperation, insert_outputs
from mikan_gateway.storage.tables import operations, runs

Kind = Literal["run", "scheduled", "reset", "answer", "refusal", "notice"]
State = Literal["anchoring", "queued", "started", "finished", "cut_off"]
"""``anchoring``: a scheduled event whose message has not been posted yet (`mikan_gateway.storage.firings`)."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A row of work: a run, the reset of a session (whose event is the command), an answer of our own or a notice."""

    run_id: str
    office: OfficeKey
    session_key: SessionKey
    kind: Kind
    position: int
    number: int
    queued_at: float
    event: ConversationEvent | None = None
    info: MessagingInfo | None = None
    started_by: str | None = None
    """Incarnation that has it in its session."""
    stop_requested: bool = False

    @property
    def record(self) -> RunRecord:
        """The run as the rest of the gateway sees it."""
        assert self.event is not None  # noqa: S101  only asked of runs
        assert self.info is not None  # noqa: S101
        started = self.started_by is not None
        record = RunRecord(self.run_id, self.office, self.session_key, self.event, self.info, started)
        if self.kind == "run" or self.kind == "reset":
            return record
        return replace(record, kind=self.kind)


@dataclass(frozen=True, slots=True)
class RunChange:
    """What becomes of a run."""

    run_id: str
    state: State
    incarnation: str | None = None
    outcome: RunOutcome | None = None
    detail: str = ""


# Built once: building costs more than running them.
_ADD = insert(runs).returning(runs.c.position)
_ADD_ALL = insert(runs)
_CHANGE = (
    update(runs)
    .where(runs.c.run_id == bindparam("id"))
    .values(
        state=bindparam("new_state"),
        incarnation=bindparam("by"),
        outcome=bindparam("ended"),
        detail=bindparam("because"),
    )
)


def add_run(connection: Connection, run: StoredRun, state: State = "queued") -> StoredRun:
    """Store a run, or what else there is to do, behind all others; returned with its position."""
    position = connection.execute(_ADD, _row(run, state)).scalar_one()
    return replace(run, position=position)


def add_runs(connection: Connection, added: Sequence[StoredRun], state: State) -> None:
    """Store several, behind all others and in their order."""
    connection.execute(_ADD_ALL, [_row(run, state) for run in added])


def _row(run: StoredRun, state: State) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "office": run.office,
        "session_key": run.session_key,
        "kind": run.kind,
        "state": state,
        "number": run.number,
        "event": None if run.event is None else run.event.model_dump_json(by_alias=True),
        "info": None if run.info is None else run.info.model_dump_json(by_alias=True),
        "stop_requested": False,
        "queued_at": run.queued_at,
    }


def unfinished_runs(connection: Connection) -> list[StoredRun]:
    """All that is queued or under way, in order."""
    return _load(connection, select(runs).where(runs.c.state.in_(("queued", "started"))).order_by(runs.c.position))


def anchoring_runs(connection: Connection) -> list[StoredRun]:
    """Scheduled events whose message has not been posted yet, in order."""
    return _load(connection, select(runs).where(runs.c.state == "anchoring").order_by(runs.c.position))


def runs_with_output(connection: Connection) -> dict[str, StoredRun]:
    """The runs that have operations still to be shown."""
    query = select(runs).where(runs.c.run_id.in_(select(operations.c.run_id)))
    return {run.run_id: run for run in _load(connection, query)}


def change_runs(connection: Connection, changes: Sequence[RunChange]) -> None:
    """Record what became of runs."""
    for change in changes:
        values = {
            "id": change.run_id,
            "new_state": change.state,
            "by": change.incarnation,
            "ended": change.outcome,
            "because": change.detail or None,
        }
        connection.execute(_CHANGE, values)


def request_stop(connection: Connection, run_id: str) -> None:
    """Remember that a run is to be stopped, should its agent or we go away meanwhile."""
    connection.execute(update(runs).where(runs.c.run_id == run_id).values(stop_requested=True))


def finish_undelivered(connection: Connection, office: OfficeKey, run_ids: Sequence[str]) -> None:
    """End runs that no agent has seen as stopped, with an operation that says so."""
    change_runs(connection, [RunChange(run_id, "finished", None, RunOutcome.STOPPED) for run_id in run_ids])
    insert_outputs(connection, [stopped_operation(office, run_id).row() for run_id in run_ids])


def finish_reset(connection: Connection, run_id: str, notices: Sequence[StoredOperation] = ()) -> None:
    """A reset has been done, or could not be, which the notices say."""
    change_runs(connection, [RunChange(run_id, "finished")])
    insert_outputs(connection, [notice.row() for notice in notices])


def cut_off(connection: Connection, office: OfficeKey, run_ids: Sequence[str]) -> None:
    """End runs whose agent is lost, with a notice that is to be given once."""
    if run_ids:
        values = {"state": "cut_off"}
        connection.execute(update(runs).where(runs.c.run_id.in_(run_ids)).values(values))
        insert_outputs(connection, [cut_off_notice(office, run_id).row() for run_id in run_ids])


def stopped_operation(office: OfficeKey, run_id: str) -> StoredOperation:
    """Our own operation for a run that was stopped before an agent had it."""
    return StoredOperation(office, own_incarnation(run_id), 1, run_id, RunFinished(outcome=RunOutcome.STOPPED))


def cut_off_notice(office: OfficeKey, run_id: str) -> StoredOperation:
    """The notice that a run was cut off."""
    return StoredOperation(office, own_incarnation(run_id), 1, run_id, None)


def failed_reset_notice(office: OfficeKey, run_id: str, reason: str) -> StoredOperation:
    """The notice that a fresh session could not be begun."""
    detail = f"No fresh session could be begun, so the old one goes on: {reason}"[:2000]
    finished = RunFinished(outcome=RunOutcome.FAILED, detail=detail)
    return StoredOperation(office, own_incarnation(run_id), 1, run_id, finished)


def own_incarnation(run_id: str) -> str:
    """Stands for the agent process where operations of a run are our own."""
    return f"gateway:{run_id}"


def _load(connection: Connection, query: Select[Any]) -> list[StoredRun]:
    return [_stored(row) for row in connection.execute(query)]


def _stored(row: Row[Any]) -> StoredRun:
    return StoredRun(
        run_id=row.run_id,
        office=OfficeKey(row.office),
        session_key=SessionKey(row.session_key),
        kind=row.kind,
        position=row.position,
        number=row.number,
        queued_at=row.queued_at,
        event=None if row.event is None else ConversationEvent.model_validate_json(row.event),
        info=None if row.info is None else MessagingInfo.model_validate_json(row.info),
        started_by=row.incarnation,
        stop_requested=row.stop_requested,
    )
