"""Finds words in everything an office keeps of its conversation: the platform log and every session, old ones included.

Files are read from their end, line by line, and a line is decoded only if its bytes hold the words: a hundred megabytes
take about a second, and no more than what is found is held.
"""

import heapq
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    parse_message,
)
from mikan_agent.records.exceptions import NotFound, StorageError
from mikan_agent.records.lines import Damaged, decode, read_lines_backwards
from mikan_agent.records.log import LOG_FILE, LogRecord, parse_log_line
from mikan_agent.sessions.chat_history import CUSTOM_TYPE
from mikan_agent.sessions.form import mark_of, text_field

logger = logging.getLogger(__name__)

Source = Literal["all", "chat", "sessions"]

OWN_TOOL = "history"
"""The tool that searches: what it was asked and what it found are left out, since else each search finds the others."""
MAX_BYTES = 512 * 1024 * 1024
MAX_SECONDS = 10.0
MAX_FILES = 1_000
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,199}\.jsonl")
_PLAIN = re.compile(r"[a-z0-9_.:@-]+")
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
"""What JSON writes in another way."""


@dataclass(frozen=True, slots=True)
class Search:
    """What to find."""

    words: Sequence[str] = ()
    """All of them, in any case."""
    source: Source = "all"
    session: str = ""
    """Name of the only session file to look into; empty: all."""
    before: datetime | None = None
    limit: int = 20


@dataclass(frozen=True, slots=True, order=True)
class Hit:
    """Something that was said or done."""

    time: datetime
    where: str = field(compare=False)
    """``chat #12``, ``session 17.5.jsonl #a1b2c3d4``."""
    who: str = field(compare=False)
    text: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Hits:
    """What was found, the newest first."""

    hits: Sequence[Hit]
    complete: bool = True
    """Everything was looked at; else the search took too long."""


class HistorySearch:
    """Searches the ``history`` directory of one office's records."""

    def __init__(self, history: ConfinedDirectory) -> None:
        self._history = history

    def find(self, search: Search, stopped: threading.Event) -> Hits:
        """Search. Blocks for at most `MAX_SECONDS`, and ends soon after ``stopped`` is set.

        Raises:
            StorageError: there are too many files, or they cannot be listed.
        """
        limits = _Limits(stopped)
        hits = heapq.nlargest(search.limit, self._hits(search, limits))
        return Hits(hits, not limits.reached)

    def _hits(self, search: Search, limits: "_Limits") -> Iterator[Hit]:
        if search.source != "sessions" and not search.session:
            yield from self._file(LOG_FILE, search, limits, partial(_chat, search=search))
        if search.source == "chat":
            return
        for name in self._sessions(search.session):
            yield from self._file(f"sessions/{name}", search, limits, partial(_entry, file=name, search=search))

    def _sessions(self, wanted: str) -> list[str]:
        try:
            names = self._history.names("sessions", 10 * MAX_FILES)
        except NotFound:
            return []
        found = [name for name in names if _FILE.fullmatch(name) and wanted in ("", name)]
        return sorted(found, key=lambda name: -self._history.stat(f"sessions/{name}").st_mtime)[:MAX_FILES]

    def _file(
        self, path: str, search: Search, limits: "_Limits", read: Callable[[dict[str, object]], Hit | None]
    ) -> Iterator[Hit]:
        """The newest hits of one file, as many as can count."""
        left = search.limit
        try:
            with self._history.open(path) as file:
                for _, line, _ in read_lines_backwards(file):
                    if not left or limits.passed(len(line)):
                        return
                    hit = _read(line, read) if _may_hold(line, search.words) else None
                    if hit is not None and (search.before is None or hit.time < search.before):
                        left -= 1
                        yield hit
        except StorageError as error:
            logger.debug("left out of a search", extra={"file": path, "reason": str(error)})


class _Limits:
    """How long a search may go on."""

    def __init__(self, stopped: threading.Event) -> None:
        self._stopped, self._bytes, self._until = stopped, 0, time.monotonic() + MAX_SECONDS
        self.reached = False

    def passed(self, size: int) -> bool:
        """Count bytes; whether it must end."""
        self._bytes += size
        over = self._bytes > MAX_BYTES or time.monotonic() > self._until or self._stopped.is_set()
        self.reached = self.reached or over
        return over


def _may_hold(line: bytes, words: Sequence[str]) -> bool:
    """Whether it is worth to decode a line: told from its bytes, which takes a tenth of the time."""
    if all(map(_PLAIN.fullmatch, words)):
        lowered = line.lower()
        return all(word.encode() in lowered for word in words)
    if b"\\u" in line:
        return True
    folded = line.decode(errors="replace").casefold()
    return all(word in folded for word in words if not _ESCAPED.search(word))


def _read(line: bytes, read: Callable[[dict[str, object]], Hit | None]) -> Hit | None:
    try:
        return read(decode(line))
    except Damaged:
        return None


def _holds(text: str, words: Iterable[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def _chat(raw: dict[str, object], search: Search) -> Hit | None:
    record = parse_log_line(raw)
    if not _holds(f"{_name(record)} {record.text} {' '.join(record.attachments)}", search.words):
        return None
    if search.source == "all" and record.is_own and record.session is not None:
        return None  # its session has it
    thread = f" in thread {record.thread}" if record.thread else ""
    who = f"{_name(record)}{' (bot)' if record.is_bot else ''}"
    return Hit(record.time, f"chat #{record.number}{thread}", who, record.text)


def _name(record: LogRecord) -> str:
    return record.user_name or record.display_name or record.user


def _entry(raw: Mapping[str, object], file: str, search: Search) -> Hit | None:
    said = _said(raw, search.source == "all")
    if said is None or not _holds(" ".join(said), search.words):
        return None
    try:
        moment = datetime.fromisoformat(text_field(raw, "timestamp"))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Hit(moment, f"session {file} #{text_field(raw, 'id')}", *said)


def _said(raw: Mapping[str, object], chat_too: bool) -> tuple[str, str] | None:
    """Who said or did what; ``None``: nothing, or what the chat has as well."""
    match raw.get("type"):
        case "message":
            mark, message = mark_of(raw), raw.get("message")
            if not isinstance(message, Mapping) or (chat_too and mark is not None and mark.of_message):
                return None
            return _message(parse_message(message))
        case "custom_message" if not (chat_too and raw.get("customType") == CUSTOM_TYPE):
            message = parse_message({"role": "custom", "customType": "", "content": raw.get("content", "")})
            return _message(message)
        case "compaction" | "branch_summary":
            return "summary", text_field(raw, "summary")
        case _:
            return None


def _message(message: Message) -> tuple[str, str] | None:
    match message:
        case UserMessage():
            return "person", message.text
        case AssistantMessage():
            calls = [
                f"[{call.name} {json.dumps(call.arguments, ensure_ascii=False)}]"
                for call in message.tool_calls
                if call.name != OWN_TOOL
            ]
            said = "\n".join([message.text, *calls]).strip()
            return ("assistant", said) if said else None
        case ToolResultMessage() if message.tool_name != OWN_TOOL:
            return f"result of {message.tool_name}{' (failed)' if message.is_error else ''}", message.text
        case BashExecutionMessage():
            return "person's command", f"{message.command}\n{message.output}"
        case CustomMessage():
            return "note", message.text
        case _:
            return None
