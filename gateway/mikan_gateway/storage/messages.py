"""The platform truth: every message of an office, numbered without a gap, once for each identity."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.sql.dml import ReturningInsert

from mikan_api.identity import OfficeKey
from mikan_api.messaging import ConversationEvent, ConversationMessage, LogEntry, MessagingInfo
from mikan_gateway.exceptions import StorageError
from mikan_gateway.ports import InboundMessage
from mikan_gateway.storage.runs import StoredRun, add_run
from mikan_gateway.storage.tables import messages, offices
from mikan_gateway.storage.upsert import upsert

# Statements of every message are built once: building costs more than running them.
_INSERT = insert(messages)
_BY_IDENTITY = select(messages.c.number, messages.c.run_id).where(
    messages.c.office == bindparam("of"),
    messages.c.app == bindparam("from_app"),
    messages.c.team == bindparam("from_team"),
    messages.c.message_id == bindparam("known_as"),
)
_OWN_APP = "mikan:posted"
"""Keeps what we posted apart from what a platform tells us, whose ids it may share."""
# By the whole identity, which is indexed: an office's messages are many.
_POSTED = select(messages.c.number).where(
    messages.c.office == bindparam("of"),
    messages.c.app == _OWN_APP,
    messages.c.team == "",
    messages.c.message_id == bindparam("known_as"),
)
_COUNT_POSTED = (
    update(offices)
    .where(offices.c.office == bindparam("of"))
    .values(last_number=offices.c.last_number + 1, last_message_at=bindparam("now"))
    .returning(offices.c.last_number)
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a message became. ``entry`` and ``run`` only where they are new."""

    number: int
    run_id: str | None
    entry: LogEntry | None
    run: StoredRun | None


def accept_message(connection: Connection, message: InboundMessage, run_id: str | None, now: float) -> Accepted:
    """Number and store a message and, if ``run_id`` is given, queue a run for it.

    One that is known keeps its number. If it had no run and now wants one (a platform may tell of a post twice, and
    only the second time that we were mentioned) it gets it.
    """
    known = _find(connection, message)
    if known is not None and (known.run_id is not None or run_id is None):
        return known
    office = message.event.address.key
    number = known.number if known else _next_number(connection, message, now)
    run = None
    if run_id is not None:
        run = add_run(connection, _run(message, run_id, office, number, now))
    if known is not None:
        mine = (messages.c.office == office) & (messages.c.number == number)
        connection.execute(update(messages).where(mine).values(run_id=run_id))
        return Accepted(number, run_id, None, run)
    event = message.event
    entry = LogEntry(number=number, message=event.message.model_copy(update={"session_key": event.session_key}))
    _insert(connection, office, entry, message.app, message.team, run_id, now)
    return Accepted(number, run_id, entry, run)


def log_bot_message(connection: Connection, office: OfficeKey, message: ConversationMessage, now: float) -> Accepted:
    """Number and store a message that we posted, once per message id.

    Raises:
        StorageError: nobody has written to that office yet.
    """
    known = connection.execute(_POSTED, {"of": office, "known_as": message.id}).scalar()
    if known is not None:
        return Accepted(known, None, None, None)
    number = connection.execute(_COUNT_POSTED, {"of": office, "now": now}).scalar()
    if number is None:
        raise StorageError(f"office {office} has no messages yet")
    entry = LogEntry(number=number, message=message, from_bot=True)
    _insert(connection, office, entry, _OWN_APP, "", None, now)
    return Accepted(number, None, entry, None)


def log_entries(
    connection: Connection, office: OfficeKey, after: int, limit: int, max_bytes: int
) -> tuple[LogEntry, ...]:
    """Entries that follow a number, in order: at most ``limit``, and as many as fit, but at least one."""
    following = (messages.c.office == office) & (messages.c.number > after)
    query = select(messages.c.number, messages.c.from_bot, messages.c.body).where(following)
    entries: list[LogEntry] = []
    size = 0
    for number, from_bot, body in connection.execute(query.order_by(messages.c.number).limit(limit)):
        size += len(body.encode())
        if entries and size > max_bytes:
            break
        message = ConversationMessage.model_validate_json(body)
        entries.append(LogEntry(number=number, message=message, from_bot=from_bot))
    return tuple(entries)


def know_offices(
    connection: Connection, conversations: Sequence[tuple[ConversationEvent, MessagingInfo]], now: float
) -> None:
    """Have offices in the inventory in which nobody has written yet."""
    values = [_inventory(event, info, now) | {"last_number": 0} for event, info in conversations]
    connection.execute(upsert(connection.dialect.name, offices).on_conflict_do_nothing(), values)


def note_written(connection: Connection, office: OfficeKey, number: int) -> None:
    """The office's agent has its log on disk up to this entry; of a log that was set back, what it has now counts."""
    connection.execute(update(offices).where(offices.c.office == office).values(written_number=number))


def last_number(connection: Connection, office: OfficeKey) -> int:
    """The last number given out; 0 = none."""
    found = connection.execute(select(offices.c.last_number).where(offices.c.office == office)).scalar()
    return int(found or 0)


def raise_last_number(connection: Connection, office: OfficeKey, number: int) -> None:
    """Give out no number up to this one any more: the office's log holds them already."""
    mine = (offices.c.office == office) & (offices.c.last_number < number)
    connection.execute(update(offices).where(mine).values(last_number=number))


def _find(connection: Connection, message: InboundMessage) -> Accepted | None:
    identity = {
        "of": message.event.address.key,
        "from_app": message.app,
        "from_team": message.team,
        "known_as": message.event.message.id,
    }
    row = connection.execute(_BY_IDENTITY, identity).one_or_none()
    return None if row is None else Accepted(row.number, row.run_id, None, None)


def _next_number(connection: Connection, message: InboundMessage, now: float) -> int:
    values = _inventory(message.event, message.info, now) | {"last_number": 1}
    return int(connection.execute(_counted(connection.dialect.name), values).scalar_one())


def _inventory(event: ConversationEvent, info: MessagingInfo, now: float) -> dict[str, Any]:
    return {
        "office": event.address.key,
        "platform": event.platform.value,
        "conversation_id": event.conversation_id,
        "conversation_kind": event.conversation_kind.value,
        "display_name": info.display_name,
        "created_at": now,
        "last_message_at": now,
    }


@cache
def _counted(dialect: str) -> ReturningInsert[int]:
    """Count a message of an office, which is new with its first one."""
    new = upsert(dialect, offices)
    kept = ("last_message_at", "display_name")
    counted = {name: new.excluded[name] for name in kept} | {"last_number": offices.c.last_number + 1}
    return new.on_conflict_do_update(index_elements=["office"], set_=counted).returning(offices.c.last_number)


def _run(message: InboundMessage, run_id: str, office: OfficeKey, number: int, now: float) -> StoredRun:
    session_key = message.event.session_key
    return StoredRun(run_id, office, session_key, "run", 0, number, now, message.event, message.info)


def _insert(
    connection: Connection, office: OfficeKey, entry: LogEntry, app: str, team: str, run_id: str | None, now: float
) -> None:
    values = {
        "office": office,
        "number": entry.number,
        "app": app,
        "team": team,
        "message_id": entry.message.id,
        "from_bot": entry.from_bot,
        "body": entry.message.model_dump_json(by_alias=True),
        "run_id": run_id,
        "stored_at": now,
    }
    connection.execute(_INSERT, values)
