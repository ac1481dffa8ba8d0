"""Keeps a session in step with its conversation: tells it, before a run, what was written that it has not heard.

The platform log is what happened; a session is what a model was given. A session that begins anew hears of the
conversation before it: a lost top-level session its last messages, a new thread the thread so far and a few earlier
top-level messages. Later it hears what others wrote while nobody asked it, and what other sessions posted; its own
answers it has. All of that is told in one message that only quotes: what people wrote never takes a role of its own.

Up to which log entry a session knows is noted on the entries themselves (`mikan_agent.sessions.form.Mark`), in the same
line as what was told: a crash at any point neither loses nor doubles. Rules: behaviour, "Sessions and log".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

from mikan_agent.records.lines import iso
from mikan_agent.records.log import LogRecord, PlatformLog
from mikan_agent.sessions.form import Mark
from mikan_agent.sessions.session import Session
from mikan_api.commands import is_magic_stop, parse_command
from mikan_api.session_keys import SessionKey, thread_suffix_of

CUSTOM_TYPE = "mikan.history"
KEPT_OUT = "mikan.kept-out"
EARLIER_MESSAGES = 10
EARLIER_AGE = timedelta(days=14)
MOST_MESSAGES = 50
LOOK_BACK = 2_000
"""Lines of the log that are looked at."""
MAX_TEXT = 4_000
"""Characters of one quoted message."""
MAX_TOLD = 60_000
"""Characters of all that is told at once, about 15,000 tokens: the newest count."""

BEFORE = "Earlier messages of this conversation, from the platform's log:"
MEANWHILE = "Written in this conversation since, and not addressed to you:"
LEFT_OUT = "[Some are left out here; the log has them.]"


@dataclass(frozen=True, slots=True)
class Told:
    """What a session is to hear, the oldest first."""

    records: Sequence[LogRecord]
    more: bool = False
    """There was more, which is left out."""


async def catch_up(session: Session, key: SessionKey, log: PlatformLog, until: int, now: datetime) -> bool:
    """Tell a session what was logged up to entry ``until`` that it has not heard; returns whether there was anything.

    Raises:
        StorageError: the log or the session cannot be used; nothing was told.
    """
    known = session.known_log
    if known is not None and known >= until:
        return False
    begins = known is None and session.is_empty
    heading = BEFORE if begins else MEANWHILE
    since = _last_used(session) if known is None else None
    kept_out = [*session.custom_data(KEPT_OUT), *_told_early(session)]
    # A thread may have waited for the answer before it: then that came after the thread's first message.
    early = begins and thread_suffix_of(key) is not None

    def choose(records: Iterator[LogRecord]) -> Told:
        seen = (r for r in islice(records, LOOK_BACK) if r.number <= until or (early and r.is_own))
        told = (r for r in seen if _for_models(r) and r.number not in kept_out)
        return beginning(told, key, now) if begins else meanwhile(told, key, known or 0, since)

    told = await log.look_back(choose)
    if not told.records:
        return False
    text = transcript(heading, told, thread_suffix_of(key))
    later = [record.number for record in told.records if record.number > until]
    details = {"toldEarly": later} if later else None
    await session.append_custom_message(CUSTOM_TYPE, text, details=details, mark=Mark(log=until))
    return True


def _told_early(session: Session) -> Sequence[object]:
    """Numbers of entries beyond what the session knew when it began, which it heard of all the same."""
    first = session.first_custom_message
    details = first.raw.get("details") if first is not None and first.raw.get("customType") == CUSTOM_TYPE else None
    early = details.get("toldEarly") if isinstance(details, Mapping) else None
    return early if isinstance(early, list) else ()


async def keep_out(session: Session, number: int) -> None:
    """Note that the session is never to hear of a log entry; nothing of it is said."""
    await session.append_custom(KEPT_OUT, number)


def _last_used(session: Session) -> datetime | None:
    """When a session that another program wrote was last used; of ours we know how much of the log it has heard."""
    try:
        used = datetime.fromisoformat(session.leaf.timestamp) if session.leaf else None
    except ValueError:
        return None
    return used if used is None or used.tzinfo is not None else used.replace(tzinfo=UTC)


def beginning(records: Iterator[LogRecord], key: SessionKey, now: datetime) -> Told:
    """What a session that begins hears; ``records`` come the newest first, as everywhere here."""
    suffix = thread_suffix_of(key)
    if suffix is None:
        return _newest(r for r in records if _belongs(r, key))
    inside: list[LogRecord] = []
    earlier: list[LogRecord] = []
    more = False
    for record in records:
        if _belongs(record, key):
            earlier.clear()
            if len(inside) < MOST_MESSAGES or record.id == suffix:
                inside.append(record)
            else:
                more = True
        elif record.thread is None and now - record.time <= EARLIER_AGE and len(earlier) < EARLIER_MESSAGES:
            earlier.append(record)
    return Told([*earlier[::-1], *inside[::-1]], more)


def meanwhile(records: Iterator[LogRecord], key: SessionKey, known: int, since: datetime | None = None) -> Told:
    """What a session hears that knows the log up to entry ``known``, or was last used at ``since``."""
    unknown = takewhile(lambda r: r.number > known and (since is None or r.time > since), records)
    return _newest(r for r in unknown if _belongs(r, key) and not _own(r, key))


def _newest(records: Iterator[LogRecord]) -> Told:
    found = list(islice(records, MOST_MESSAGES + 1))
    return Told(found[:MOST_MESSAGES][::-1], len(found) > MOST_MESSAGES)


def _belongs(record: LogRecord, key: SessionKey) -> bool:
    """Whether a message is part of what a session is about."""
    if record.session == key:
        return True
    suffix = thread_suffix_of(key)
    return record.thread is None if suffix is None else suffix in (record.thread, record.id)


def _own(record: LogRecord, key: SessionKey) -> bool:
    """Whether the session said it itself. What no session did, such as an extension's notice, is news."""
    return record.is_own and record.session == key


def _for_models(record: LogRecord) -> bool:
    """Commands are for the gateway."""
    return record.is_own or not (is_magic_stop(record.text) or parse_command(record.text))


def transcript(heading: str, told: Told, root: str | None = None) -> str:
    """Records as quoted text: continuation lines are indented, so that no text can pass for another's message.

    What does not fit is left out, the oldest first, but never ``root``, the message that a thread is about.
    """
    room, more = MAX_TOLD, told.more
    lines: list[str] = []
    for record in reversed(told.records):
        line = _quoted(record)
        room -= len(line)
        if room >= 0 or record.id == root:
            lines.append(line)
        else:
            more = True
    return "\n".join([heading, *([LEFT_OUT] if more else []), *lines[::-1]])


def _quoted(record: LogRecord) -> str:
    name = " ".join((record.user_name or record.display_name or record.user).split())
    text = record.text if len(record.text) <= MAX_TEXT else record.text[:MAX_TEXT] + " […]"
    body = "\n    ".join(text.splitlines())
    files = f"\n    attachments: {', '.join(record.attachments)}" if record.attachments else ""
    return f"[{iso(record.time)}] {name}{' (bot)' if record.is_bot else ''}: {body}{files}"
