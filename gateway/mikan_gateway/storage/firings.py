"""Firings of scheduled events, each once for good, and their runs until their message stands.

A firing is stored before the operator hears that it is taken. Its run begins once its message has been posted, since
that message is what its session is named by (behaviour "Session keys"); until then its state is ``anchoring``.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, func, select, update

from mikan_api.firings import Firing, FiringOutcome, FiringResult
from mikan_api.identity import OfficeKey
from mikan_api.messaging import ConversationEvent
from mikan_api.responder import RunOutcome
from mikan_api.session_keys import derive_session_key
from mikan_gateway.storage.messages import know_offices, last_number
from mikan_gateway.storage.runs import RunChange, StoredRun, add_runs, change_runs
from mikan_gateway.storage.tables import runs

MAX_QUEUED = 5
"""Events of one office that may wait for their turn."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A firing, with its run if there is nothing against it, else with what there is."""

    firing: Firing
    run: StoredRun | None
    refusal: FiringResult | None = None


def run_id_of(firing: Firing) -> str:
    """The run of a firing: the same for every delivery."""
    return f"event-{hashlib.sha256(firing.delivery_id.encode()).hexdigest()[:24]}"


def accept_firings(
    connection: Connection, offered: Sequence[Offered], now: float
) -> list[tuple[FiringResult, StoredRun | None]]:
    """Store those that can be taken; the result of each, with its run where it is new."""
    ids = [run_id_of(one.firing) for one in offered]
    known = set(connection.execute(select(runs.c.run_id).where(runs.c.run_id.in_(ids))).scalars())
    waiting = _waiting(connection)
    results: list[tuple[FiringResult, StoredRun | None]] = []
    for run_id, one in zip(ids, offered, strict=True):
        if run_id in known:
            results.append((FiringResult(outcome=FiringOutcome.REPEATED), None))
        elif one.run is None:
            results.append((one.refusal or FiringResult(outcome=FiringOutcome.OFFICE_NOT_FOUND), None))
        elif waiting[one.run.office] >= MAX_QUEUED:
            message = f"{MAX_QUEUED} events of this office wait already"
            results.append((FiringResult(outcome=FiringOutcome.QUEUE_FULL, message=message), None))
        else:
            known.add(run_id)
            waiting[one.run.office] += 1
            results.append((FiringResult(outcome=FiringOutcome.QUEUED), one.run))
    _add(connection, [run for _, run in results if run is not None], now)
    return results


def _waiting(connection: Connection) -> Counter[OfficeKey]:
    """How many events of each office wait."""
    query = (
        select(runs.c.office, func.count())
        .where(runs.c.state.in_(("anchoring", "queued")), runs.c.kind == "scheduled")
        .group_by(runs.c.office)
    )
    return Counter({OfficeKey(office): count for office, count in connection.execute(query)})


def _add(connection: Connection, new: Sequence[StoredRun], now: float) -> None:
    if new:
        know_offices(connection, [(run.record.event, run.record.info) for run in new], now)
        add_runs(connection, new, "anchoring")


def anchor(connection: Connection, run: StoredRun, message_id: str) -> StoredRun:
    """A run's message stands: the run may begin, in the session that is named by it."""
    assert run.event is not None  # noqa: S101  only asked of runs
    conversation = run.event.conversation_id
    session_key = derive_session_key(conversation, message_id)
    message = run.event.message.model_copy(update={"id": message_id})
    event = ConversationEvent.model_validate({**dict(run.event), "message": message, "session_key": session_key})
    anchored = replace(run, event=event, session_key=session_key, number=last_number(connection, run.office))
    values = {
        "state": "queued",
        "session_key": session_key,
        "number": anchored.number,
        "event": event.model_dump_json(by_alias=True),
    }
    position = connection.execute(
        update(runs).where(runs.c.run_id == run.run_id).values(values).returning(runs.c.position)
    ).scalar_one()
    return replace(anchored, position=position)


def give_up(connection: Connection, run: StoredRun, reason: str) -> None:
    """A run's message can't be posted, for good."""
    change_runs(connection, [RunChange(run.run_id, "finished", None, RunOutcome.FAILED, reason)])
