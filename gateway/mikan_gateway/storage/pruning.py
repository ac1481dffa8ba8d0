"""What has been kept long enough goes, a small batch at a time, oldest first and along an index.

A message keeps its row, and with it its identity, for the whole retention: for longer than any platform delivers again
(Telegram: 24 hours). It stays even longer where the office's log does not have it yet.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from sqlalchemy import Connection, bindparam, delete, select

from mikan_api.identity import OfficeKey
from mikan_gateway.storage.console import ConsoleMessage
from mikan_gateway.storage.tables import console_messages, incarnations, messages, offices, operations, outgoing, runs

BATCH = 200
"""Rows looked at in one transaction."""
_OVER = ("finished", "cut_off")

Prune = Callable[[Connection], int]
"""Removes one batch; how many rows it found to remove. Fewer than `BATCH`: there are no more."""


# Built once: building costs more than running them.
_OLD_RUNS = (
    select(runs.c.run_id, runs.c.queued_at)
    .where(runs.c.state == bindparam("over"))
    .order_by(runs.c.position)
    .limit(BATCH)
)
_OLD_MESSAGES = (
    select(messages.c.number, messages.c.stored_at)
    .where(messages.c.office == bindparam("of"), messages.c.number <= bindparam("until"))
    .order_by(messages.c.number)
    .limit(BATCH)
)
_OLD_SHOWN = select(console_messages.c.seq, console_messages.c.body).order_by(console_messages.c.seq).limit(BATCH)


def prune_runs(before: float, state: str) -> Prune:
    """Runs that were queued before a time and are over, with their intents; not those with something still to show."""

    def prune(connection: Connection) -> int:
        old = [row.run_id for row in connection.execute(_OLD_RUNS, {"over": state}) if row.queued_at < before]
        showing = set(connection.execute(select(operations.c.run_id).where(operations.c.run_id.in_(old))).scalars())
        gone = [run_id for run_id in old if run_id not in showing]
        connection.execute(delete(outgoing).where(outgoing.c.run_id.in_(gone)))
        connection.execute(delete(runs).where(runs.c.run_id.in_(gone)))
        return len(gone)

    return prune


def prune_messages(before: float, office: OfficeKey, exists: bool) -> Prune:
    """Messages of an office that were stored before a time.

    Args:
        exists: whether the Office does; the log of one that is gone waits for nothing.
    """

    def prune(connection: Connection) -> int:
        known = select(offices.c.last_number, offices.c.written_number).where(offices.c.office == office)
        row = connection.execute(known).one_or_none()
        if row is None:
            return 0
        until = row.written_number if exists else row.last_number
        found = connection.execute(_OLD_MESSAGES, {"of": office, "until": until})
        old = [message for message in found if message.stored_at < before]
        gone = (messages.c.office == office) & messages.c.number.in_([message.number for message in old])
        connection.execute(delete(messages).where(gone))
        return len(old)

    return prune


def prune_console(before: float) -> Prune:
    """What the console has shown before a time."""

    def prune(connection: Connection) -> int:
        old = [seq for seq, body in connection.execute(_OLD_SHOWN) if _time(body) < before]
        connection.execute(delete(console_messages).where(console_messages.c.seq.in_(old)))
        return len(old)

    return prune


def prune_incarnations(before: float) -> Prune:
    """Agent processes that others took over from before a time: a row an agent's start, so all of them at once."""

    def prune(connection: Connection) -> int:
        old = incarnations.c.superseded & (incarnations.c.connected_at < before)
        connection.execute(delete(incarnations).where(old))
        return 0

    return prune


def prunes(before: float, known: Sequence[OfficeKey], existing: Collection[OfficeKey]) -> Iterator[Prune]:
    """Everything there is to prune.

    Args:
        before: what is older goes; seconds since the epoch.
        known: offices that the database knows.
        existing: those of them that exist.
    """
    yield from (prune_runs(before, state) for state in _OVER)
    yield prune_console(before)
    yield prune_incarnations(before)
    yield from (prune_messages(before, office, office in existing) for office in known)


def known_offices(connection: Connection) -> list[OfficeKey]:
    """Every office that ever had a message."""
    return [OfficeKey(office) for office in connection.execute(select(offices.c.office)).scalars()]


def up_to_date_offices(connection: Connection) -> list[OfficeKey]:
    """Offices whose agents have all of their log."""
    query = select(offices.c.office).where(offices.c.written_number >= offices.c.last_number)
    return [OfficeKey(office) for office in connection.execute(query).scalars()]


def _time(body: str) -> float:
    return ConsoleMessage.model_validate_json(body).time.timestamp()
