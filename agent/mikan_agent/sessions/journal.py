"""A session's file: opened once by one writer, read as a stream, appended to and never rewritten.

The cost of an append does not depend on the size of the file. Two exceptions: an older version is written anew once,
beside the kept original, and a torn last line is moved aside (known fault "Crash in the middle of an append").
"""

import fcntl
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from mikan_agent.confined import ConfinedDirectory, translated
from mikan_agent.sessions.exceptions import InvalidHeader, SessionBusy, SessionClosed
from mikan_agent.sessions.lines import Damaged, Line, decode, read_lines
from mikan_agent.sessions.migration import migrated_header, migrated_lines
from mikan_agent.sessions.tree import VERSION, Header, SessionTree

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a file that did not keep the rest from loading."""

    line: int
    reason: str
    kept_in: str | None = None
    """The file that holds the bytes now; ``None``: they are still where they were."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a session file holds."""

    header: Header
    tree: SessionTree
    problems: tuple[Problem, ...]
    torn: Line | None = None
    """The last line, if a crash cut it."""
    ends_open: bool = False
    """The last line is whole, but its line break is missing."""


def load(file: BinaryIO) -> Loaded:
    """Read a session from the start of its file, in one pass; older versions are migrated in memory.

    Raises:
        InvalidHeader: the first line is no usable header.
    """
    lines = read_lines(file)
    header, _ = _read_header(lines)
    tree, problems, last, torn = SessionTree(), list[Problem](), None, None
    for line in lines if header.version == VERSION else _migrated(header, lines):
        last = line
        try:
            raw = decode(line.content)
        except Damaged as damage:
            if line.complete:
                problems.append(Problem(line.number, str(damage)))
            else:
                torn = line
            continue
        _add(tree, raw, line.number, problems)
    ends_open = last is not None and not last.complete and torn is None
    return Loaded(header, tree, tuple(problems), torn, ends_open)


def read_header(file: BinaryIO) -> Header:
    """The header alone.

    Raises:
        InvalidHeader: the first line is no usable header.
    """
    return _read_header(read_lines(file))[0]


def _add(tree: SessionTree, raw: dict[str, object], number: int, problems: list[Problem]) -> None:
    try:
        if not tree.add(raw):
            problems.append(Problem(number, "its parent is missing; it hangs on the entry before it"))
    except Damaged as damage:
        problems.append(Problem(number, str(damage)))


def _read_header(lines: Iterator[Line]) -> tuple[Header, dict[str, object]]:
    first = next(lines, None)
    if first is None:
        raise InvalidHeader("the session file is empty")
    try:
        raw = decode(first.content)
    except Damaged as damage:
        raise InvalidHeader(f"the session header is {damage}") from None
    return Header.parse(raw), raw


def _migrated(header: Header, lines: Iterable[Line]) -> Iterator[Line]:
    last: Line | None = None

    def remembered() -> Iterator[Line]:
        nonlocal last
        for line in lines:
            last = line
            yield line

    for content in migrated_lines(header, remembered()):
        if last is not None:
            yield Line(last.number, last.offset, content, last.complete)


class Journal:
    """The open file and its writer lock. Methods block; callers serialise them."""

    def __init__(self, directory: ConfinedDirectory, name: str, descriptor: int) -> None:
        self._directory = directory
        self._name = name
        self._descriptor: int | None = descriptor
        self._needs_break = False

    @property
    def name(self) -> str:
        """The file's name in the sessions directory."""
        return self._name

    @property
    def closed(self) -> bool:
        """The lock was given back."""
        return self._descriptor is None

    @classmethod
    def open(cls, directory: ConfinedDirectory, name: str, stamp: str) -> tuple["Journal", Loaded]:
        """Lock a session file and read it; ``stamp`` names side files.

        Raises:
            SessionBusy: it has a writer, in this process or another.
            InvalidHeader, Refused, NotFound, StorageFailed
        """
        journal = cls(directory, name, _lock(directory, name))
        try:
            journal._migrate_if_old(stamp)
            with journal._reading() as file:
                loaded = load(file)
            problems = list(loaded.problems)
            if loaded.torn is not None:
                problems.append(journal._set_aside(loaded.torn, stamp))
            journal._needs_break = loaded.ends_open
        except BaseException:
            journal.close()
            raise
        for problem in problems:
            logger.warning("session file damaged", extra={"file": name, "line": problem.line, "reason": problem.reason})
        return journal, Loaded(loaded.header, loaded.tree, tuple(problems))

    def append(self, line: bytes, durable: bool) -> None:
        """Add one line (line break included); whole, or not at all.

        Raises:
            SessionClosed: after `close`.
            StorageFailed: disk full or the like; what was written of it is taken back.
        """
        descriptor = self._open_descriptor()
        content = b"\n" + line if self._needs_break else line
        with translated(self._name):
            size = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, content)
                if durable:
                    os.fsync(descriptor)
            except OSError:
                # If even this fails, the next append starts on a new line, and the next open reports the torn one.
                self._needs_break = True
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                    self._needs_break = content is not line
                raise
        self._needs_break = False

    def sync(self) -> None:
        """Make everything appended so far durable."""
        with translated(self._name):
            os.fsync(self._open_descriptor())

    def close(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise SessionClosed(f"session file {self._name!r} is closed")
        return self._descriptor

    def _reading(self) -> BinaryIO:
        os.lseek(self._open_descriptor(), 0, os.SEEK_SET)
        return os.fdopen(self._open_descriptor(), "rb", buffering=1 << 20, closefd=False)

    def _set_aside(self, torn: Line, stamp: str) -> Problem:
        side = f"{self._name}.torn-{stamp}"
        self._directory.append(side, torn.content)
        with translated(self._name):
            os.ftruncate(self._open_descriptor(), torn.offset)
            os.fsync(self._open_descriptor())
        return Problem(torn.number, "the last line was cut off", kept_in=side)

    def _migrate_if_old(self, stamp: str) -> None:
        with self._reading() as file:
            lines = read_lines(file)
            header, raw = _read_header(lines)
            if header.version == VERSION:
                return
            bodies = [line.content + b"\n" * line.complete for line in _migrated(header, lines)]
        original = f"{self._name}.v{header.version}-{stamp}"
        self._directory.copy(self._name, original)
        self._directory.write(self._name, migrated_header(raw) + b"".join(bodies))
        logger.info("session file migrated", extra={"file": self._name, "original": original})
        migrated = _lock(self._directory, self._name)
        self.close()
        self._descriptor = migrated


def _lock(directory: ConfinedDirectory, name: str) -> int:
    """Open for reading and appending, with the writer lock of the file that has this name now."""
    descriptor = directory.open_descriptor(name, os.O_RDWR | os.O_APPEND)
    try:
        with translated(name):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == directory.stat(name).st_ino:
            return descriptor
    except BlockingIOError:
        os.close(descriptor)
        raise SessionBusy(f"session file {name!r} has a writer already") from None
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    raise SessionBusy(f"session file {name!r} was replaced while it was opened")


def _write_all(descriptor: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
