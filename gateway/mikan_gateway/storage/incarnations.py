"""Agent processes: who speaks for an office, and up to which operation it has been heard.

An incarnation that another has taken over from is refused for good, so two pods can never take turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from mikan_api.identity import OfficeKey
from mikan_api.responder import Usage
from mikan_api.tokens import OfficeClaims
from mikan_api.wire import Hello
from mikan_gateway import close_codes
from mikan_gateway.exceptions import AgentRefused
from mikan_gateway.storage.messages import last_number, note_written, raise_last_number
from mikan_gateway.storage.operations import StoredOperation, insert_outputs
from mikan_gateway.storage.runs import RunChange, change_runs, cut_off
from mikan_gateway.storage.tables import incarnations, offices, runs

MAX_NUMBER_AHEAD = 1_000_000
REMEMBERED = 7 * 86_400.0
"""Seconds for which an incarnation that was taken over from is remembered."""


# Built once: building costs more than running them.
_ADVANCE = (
    update(incarnations)
    .where(
        incarnations.c.office == bindparam("of"),
        incarnations.c.incarnation == bindparam("by"),
        incarnations.c.operation_number == bindparam("previous"),
        ~incarnations.c.superseded,
    )
    .values(operation_number=bindparam("last"))
)
_COUNT = (
    update(offices)
    .where(offices.c.office == bindparam("of"))
    .values(
        runs=offices.c.runs + 1,
        input_tokens=offices.c.input_tokens + bindparam("tokens_in"),
        output_tokens=offices.c.output_tokens + bindparam("tokens_out"),
        model_calls=offices.c.model_calls + bindparam("calls"),
        cost_usd=offices.c.cost_usd + bindparam("cost"),
    )
)


@dataclass(frozen=True, slots=True)
class Incarnation:
    """The agent process that speaks for an office."""

    office: OfficeKey
    incarnation: str
    office_uid: str
    pod_uid: str


@dataclass(frozen=True, slots=True)
class Registered:
    """What holds after a hello."""

    agent: Incarnation
    operation_number: int
    last_number: int
    cut_off: Sequence[str]
    """Runs that this hello shows to be lost."""


def register(connection: Connection, claims: OfficeClaims, hello: Hello, now: float) -> Registered:
    """Make an agent process the office's one, and cut off what others had begun.

    Raises:
        AgentRefused: another took over from it, or its log cannot be ours.
    """
    office = claims.office
    mine = (incarnations.c.office == office) & (incarnations.c.incarnation == hello.incarnation)
    known = connection.execute(select(incarnations).where(mine)).one_or_none()
    if known is not None and known.superseded:
        raise AgentRefused(close_codes.SUPERSEDED, "another agent of this office has taken over")
    if known is None:
        _replace_others(connection, claims, hello, now)
    return Registered(
        agent=Incarnation(office, hello.incarnation, claims.uid, hello.pod_uid),
        operation_number=known.operation_number if known else 0,
        last_number=_agreed_number(connection, office, hello.log_number),
        cut_off=_cut_off_lost(connection, office, hello),
    )


def current_incarnations(connection: Connection) -> list[Incarnation]:
    """The last agent process of each office."""
    rows = connection.execute(select(incarnations).where(~incarnations.c.superseded))
    return [Incarnation(OfficeKey(row.office), row.incarnation, row.office_uid, row.pod_uid) for row in rows]


def record_operations(
    connection: Connection,
    office: OfficeKey,
    incarnation: str,
    numbers: tuple[int, int],
    shown: Sequence[StoredOperation],
    changes: Sequence[RunChange],
    usage: Sequence[Usage],
) -> None:
    """Commit operations ``numbers[0] + 1`` to ``numbers[1]`` of an incarnation and what they change.

    Raises:
        AgentRefused: it speaks no longer for the office, or these operations are known.
    """
    previous, last = numbers
    counted = connection.execute(_ADVANCE, {"of": office, "by": incarnation, "previous": previous, "last": last})
    if counted.rowcount != 1:
        raise AgentRefused(close_codes.SUPERSEDED, "another agent of this office has taken over")
    insert_outputs(connection, [one.row() for one in shown])
    change_runs(connection, [change for change in changes if change.state != "cut_off"])
    cut_off(connection, office, [change.run_id for change in changes if change.state == "cut_off"])
    for one in usage:
        _count(connection, office, one)


def _replace_others(connection: Connection, claims: OfficeClaims, hello: Hello, now: float) -> None:
    others = incarnations.c.office == claims.office
    connection.execute(delete(incarnations).where(others & (incarnations.c.connected_at < now - REMEMBERED)
                                                  & incarnations.c.superseded))  # fmt: skip
    connection.execute(update(incarnations).where(others).values(superseded=True))
    row: dict[str, Any] = {
        "office": claims.office,
        "incarnation": hello.incarnation,
        "office_uid": claims.uid,
        "pod_name": hello.pod_name,
        "pod_uid": hello.pod_uid,
        "operation_number": 0,
        "superseded": False,
        "connected_at": now,
    }
    connection.execute(insert(incarnations).values(row))


def _agreed_number(connection: Connection, office: OfficeKey, theirs: int) -> int:
    """The last log number. An agent may be ahead of a database that was restored from an older copy."""
    ours = last_number(connection, office)
    if theirs > ours + MAX_NUMBER_AHEAD:
        raise AgentRefused(
            close_codes.PROTOCOL_FAULT, f"the log number {theirs} cannot be: the last one given out is {ours}"
        )
    if theirs > ours:
        raise_last_number(connection, office, theirs)
    note_written(connection, office, theirs)
    return max(ours, theirs)


def _cut_off_lost(connection: Connection, office: OfficeKey, hello: Hello) -> list[str]:
    """Runs that were begun by another process, or by this one, which no longer knows them."""
    begun = (runs.c.office == office) & (runs.c.state == "started")
    query = select(runs.c.run_id, runs.c.incarnation).where(begun).order_by(runs.c.position)
    kept = set(hello.runs)
    lost = [
        run_id
        for run_id, incarnation in connection.execute(query)
        if incarnation != hello.incarnation or run_id not in kept
    ]
    cut_off(connection, office, lost)
    return lost


def _count(connection: Connection, office: OfficeKey, usage: Usage) -> None:
    added = {
        "of": office,
        "tokens_in": usage.input_tokens,
        "tokens_out": usage.output_tokens,
        "calls": usage.model_calls,
        "cost": usage.cost_usd,
    }
    connection.execute(_COUNT, added)
