"""``log.jsonl``: the office's copy of what happened on the platform, written by the agent alone.

The gateway's database numbers every message; this file is its projection (architecture section 5). Batches may come
twice: what the file has already is skipped. One JSON object a line, for people, ``grep`` and the model.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, TypeVar

from mikan_agent.clock import Clock, SystemClock
from mikan_agent.confined import ConfinedDirectory
from mikan_agent.records.append_file import AppendFile
from mikan_agent.records.exceptions import FileClosed, LogGap
from mikan_agent.records.lines import Damaged, decode, encode, iso, read_lines_backwards, stamp
from mikan_api.identity import OfficeKey
from mikan_api.kill_points import Step, around
from mikan_api.messaging import LogEntry

T = TypeVar("T")

logger = logging.getLogger(__name__)

LOG_FILE = "log.jsonl"


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One line of the log, as read back. Lines of an older product have no number: 0."""

    number: int
    id: str
    time: datetime
    user: str
    user_name: str
    display_name: str
    text: str
    attachments: tuple[str, ...]
    """Workspace-relative paths."""
    thread: str | None
    is_bot: bool
    is_own: bool = False
    """We posted it ourselves."""
    session: str | None = None
    """The session key that it belongs to; of what we posted, the one that it was posted for. Not always known."""


class PlatformLog:
    """The open log of one office."""

    def __init__(self, directory: ConfinedDirectory, office_key: OfficeKey, clock: Clock | None = None) -> None:
        """``directory``: the real ``history`` directory of the office's records."""
        self._directory = directory
        self._office_key = office_key
        self._clock = clock or SystemClock()
        self._file: AppendFile | None = None
        self._writing = threading.Lock()
        self._last = 0
        self.torn_file: str | None = None
        """Where the last line went, if it was found cut off at `open`."""

    @property
    def last_number(self) -> int:
        """Number of the last entry on disk; 0 before the first. Resume from here."""
        return self._last

    async def open(self) -> int:
        """Lock the file, read its tail, set a torn last line aside, and return `last_number`.

        Raises:
            FileBusy: another writer has it.
            Refused: a link or something else that is no file stands in its place.
        """
        await asyncio.to_thread(self._open)
        return self._last

    async def append(self, batch: Sequence[LogEntry], after: int = 0) -> int:
        """Add what the file does not have yet, durably and as a whole, and return `last_number`.

        Args:
            batch: entries in order of their numbers.
            after: entries up to this number can be had no more; if some are missing here they stay so.

        Raises:
            LogGap: the batch starts after the next number, or skips one; nothing was written.
            StorageFailed: disk full or the like; nothing was written.
        """
        return await asyncio.to_thread(self._append, batch, after)

    async def look_back(self, look: Callable[[Iterator[LogRecord]], T]) -> T:
        """What ``look`` makes of the readable lines, the newest first.

        It is called in a thread, and reads no further than it looks.
        """
        return await asyncio.to_thread(self._look_back, look)

    async def close(self) -> None:
        """Let others open the file; a second call does nothing."""
        await asyncio.to_thread(self._close)

    def _open(self) -> None:
        with self._writing:
            self._directory.mkdir()
            file = AppendFile.open(self._directory, LOG_FILE, create=True)
            try:
                self._last = self._read_tail(file)
            except BaseException:
                file.close()
                raise
            self._file = file

    def _read_tail(self, file: AppendFile) -> int:
        with file.reading() as content:
            for offset, line, complete in read_lines_backwards(content):
                try:
                    raw = decode(line)
                except Damaged as damage:
                    self._report(file, offset, complete, damage)
                    continue
                file.needs_break = not complete
                number = raw.get("number")
                return number if isinstance(number, int) else 0
        return 0

    def _report(self, file: AppendFile, offset: int, complete: bool, damage: Damaged) -> None:
        if complete:
            logger.warning("damaged line in the log", extra={"file": LOG_FILE, "offset": offset, "reason": str(damage)})
            return
        self.torn_file = file.set_tail_aside(offset, stamp(self._clock.now()))
        logger.warning("the log's last line was cut off", extra={"file": LOG_FILE, "kept_in": self.torn_file})

    def _append(self, batch: Sequence[LogEntry], after: int) -> int:
        with self._writing:
            fresh = [entry for entry in batch if entry.number > self._last]
            for expected, entry in enumerate(fresh, start=max(self._last, after) + 1):
                if entry.number != expected:
                    raise LogGap(f"log entry {entry.number} came where {expected} was due")
            if fresh and after > self._last:
                logger.warning("log entries are gone", extra={"after": self._last, "until": after})
            if fresh:
                content = b"".join(encode(log_line(entry, self._office_key)) for entry in fresh)
                with around(Step.LOG_WRITE):
                    self._opened().append(content, durable=True)
                self._last = fresh[-1].number
            return self._last

    def _look_back(self, look: Callable[[Iterator[LogRecord]], T]) -> T:
        with self._directory.open(LOG_FILE) as file:
            return look(_records_backwards(file))

    def _opened(self) -> AppendFile:
        if self._file is None:
            raise FileClosed(f"{LOG_FILE!r} is not open")
        return self._file

    def _close(self) -> None:
        with self._writing:
            if self._file is not None:
                self._file.close()


def log_line(entry: LogEntry, office_key: OfficeKey) -> dict[str, object]:
    """An entry as the log has it. An attachment that could not be fetched is named apart: it has no file."""
    message = entry.message
    line: dict[str, object] = {
        "number": entry.number,
        "id": message.id,
        "time": iso(message.time),
        "user": message.author.id,
        "userName": message.author.user_name,
        "displayName": message.author.display_name,
        "text": message.text,
        "attachments": [f"{office_key}/attachments/{a.name}" for a in message.attachments if a.error is None],
        "thread": message.thread_id,
        "isBot": entry.from_bot or message.author.is_bot,
    }
    if entry.from_bot:
        line["isOwn"] = True
    if message.session_key is not None:
        line["session"] = message.session_key
    missing = [{"name": a.name, "error": a.error} for a in message.attachments if a.error is not None]
    return line | ({"missingAttachments": missing} if missing else {})


def _records_backwards(file: BinaryIO) -> Iterator[LogRecord]:
    for _, line, _ in read_lines_backwards(file):
        try:
            yield parse_log_line(decode(line))
        except Damaged as damage:
            logger.debug("log line left out", extra={"file": LOG_FILE, "reason": str(damage)})


def parse_log_line(raw: dict[str, object]) -> LogRecord:
    """Read a line back.

    Raises:
        Damaged: it has no id or no time.
    """

    def text(name: str) -> str:
        value = raw.get(name)
        return value if isinstance(value, str) else ""

    try:
        time = datetime.fromisoformat(text("time"))
    except ValueError:
        raise Damaged("a log line without a time") from None
    if not text("id") or time.tzinfo is None:
        raise Damaged("a log line without an id or a time zone")
    number, attachments = raw.get("number"), raw.get("attachments")
    return LogRecord(
        number=number if isinstance(number, int) else 0,
        id=text("id"),
        time=time,
        user=text("user"),
        user_name=text("userName"),
        display_name=text("displayName"),
        text=text("text"),
        attachments=tuple(a for a in attachments if isinstance(a, str)) if isinstance(attachments, list) else (),
        thread=text("thread") or None,
        is_bot=raw.get("isBot") is True,
        is_own=raw.get("isOwn") is True,
        session=text("session") or None,
    )
