"""What a session that begins anew is told of the conversation before it.

A lost top-level session is rebuilt from recent lines of ``log.jsonl``; a new thread hears the thread so far and a few
earlier top-level messages (behaviour, "Sessions and log"). Told as one message that only quotes: what people wrote
never takes a role of its own in the session.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from mikan_agent.records.lines import iso
from mikan_agent.records.log import LogRecord, PlatformLog
from mikan_agent.sessions.session import Session
from mikan_api.session_keys import SessionKey, thread_suffix_of

CUSTOM_TYPE = "mikan.history"
EARLIER_MESSAGES = 10
EARLIER_AGE = timedelta(days=14)
REBUILT_MESSAGES = 50
LOOK_BACK = 2_000
"""Lines of the log that are looked at."""
MAX_TEXT = 4_000
"""Characters of one quoted message."""


async def seed(session: Session, key: SessionKey, log: PlatformLog, before: int, now: datetime) -> bool:
    """Tell a session that was just created what came before log entry ``before``; returns whether anything did.

    ``before``: number of the message that the session begins with (0: it is none, all of the log came before).
    """
    if not session.created or not session.is_empty:
        return False
    records = [r for r in await log.recent(LOOK_BACK) if not before or r.number < before]
    suffix = thread_suffix_of(key)
    told = top_level_history(records) if suffix is None else thread_history(records, suffix, now)
    if not told:
        return False
    await session.append_custom_message(CUSTOM_TYPE, transcript(told), display=True)
    return True


def top_level_history(records: Sequence[LogRecord]) -> list[LogRecord]:
    """The last top-level messages; ``records`` oldest first, as everywhere here."""
    return [record for record in records if record.thread is None][-REBUILT_MESSAGES:]


def thread_history(records: Sequence[LogRecord], thread: str, now: datetime) -> list[LogRecord]:
    """At most 10 top-level messages of the last 14 days from before the thread, then the thread so far."""
    inside = [record for record in records if thread in (record.thread, record.id)]
    earlier = records[: records.index(inside[0])] if inside else records
    top = [record for record in earlier if record.thread is None and now - record.time <= EARLIER_AGE]
    return top[-EARLIER_MESSAGES:] + inside


def transcript(records: Sequence[LogRecord]) -> str:
    """Records as quoted text: continuation lines are indented, so that no text can pass for another's message."""
    return "\n".join(["Earlier messages of this conversation, from the platform's log:", *map(_quoted, records)])


def _quoted(record: LogRecord) -> str:
    name = " ".join((record.user_name or record.display_name or record.user).split())
    text = record.text if len(record.text) <= MAX_TEXT else record.text[:MAX_TEXT] + " […]"
    body = "\n    ".join(text.splitlines())
    files = f"\n    attachments: {', '.join(record.attachments)}" if record.attachments else ""
    return f"[{iso(record.time)}] {name}{' (bot)' if record.is_bot else ''}: {body}{files}"
