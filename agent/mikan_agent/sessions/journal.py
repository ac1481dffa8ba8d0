"""A session's file: opened once by one writer, read as a stream, appended to and never rewritten.

The cost of an append does not depend on the size of the file. Two exceptions: an older version is written anew once,
beside the kept original, and a torn last line is moved aside (known fault "Crash in the middle of an append").
"""

import io
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.records.append_file import AppendFile
from mikan_agent.records.lines import Damaged, Line, decode, is_object, read_lines
from mikan_agent.sessions.exceptions import InvalidHeader
from mikan_agent.sessions.form import VERSION, Header, read_stub
from mikan_agent.sessions.migration import migrated_header, migrated_lines
from mikan_agent.sessions.tree import ReadAt, SessionTree
from mikan_api.kill_points import Step, around

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a file that did not keep the rest from loading."""

    line: int
    reason: str
    kept_in: str | None = None
    """The file that holds the bytes now; ``None``: they are still where they were."""


@dataclass(frozen=True, slots=True)
class Torn:
    """A last line that a crash cut."""

    line: int
    offset: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a session file holds. Entries are read from the file when they are looked at, so it stays open."""

    header: Header
    tree: SessionTree
    problems: tuple[Problem, ...]
    torn: Torn | None = None
    ends_open: bool = False
    """The last line is whole, but its line break is missing."""


def load(file: BinaryIO) -> Loaded:
    """Read a session from its file, in one pass; an older version is migrated in memory.

    Raises:
        InvalidHeader: the first line is no usable header.
    """
    file.seek(0)
    header = read_header(file)
    if header.version != VERSION:
        file.seek(0)
        return load(io.BytesIO(b"".join(_migrated(file))))
    return _load(file, header, _reader(file))


def _load(file: BinaryIO, header: Header, read: ReadAt) -> Loaded:
    """Takes in each line by itself: there may be 100,000, so nothing is made for one that is not kept."""
    file.seek(0)
    tree, problems, torn = SessionTree(read), list[Problem](), None
    offset, line, number = 0, b"\n", 0
    begun = False
    for number, line in enumerate(file, start=1):
        try:
            if begun and not tree.add(read_stub(line), offset, len(line)):
                problems.append(Problem(number, "its parent is missing; it hangs on the entry before it"))
            begun = begun or not line.isspace()
        except Damaged as damage:
            if line.isspace():
                pass
            elif line.endswith(b"\n") or is_object(line):
                problems.append(Problem(number, str(damage)))
            else:
                torn = Torn(number, offset)
        offset += len(line)
    ends_open = torn is None and not line.endswith(b"\n")
    return Loaded(header, tree, tuple(problems), torn, ends_open)


def _reader(file: BinaryIO) -> ReadAt:
    if isinstance(file, io.BytesIO):
        return lambda offset, length: bytes(file.getbuffer()[offset : offset + length])
    return lambda offset, length: os.pread(file.fileno(), length, offset)


def read_header(file: BinaryIO) -> Header:
    """The header alone.

    Raises:
        InvalidHeader: the first line is no usable header.
    """
    return _read_header(read_lines(file))[0]


def _read_header(lines: Iterator[Line]) -> tuple[Header, dict[str, object]]:
    first = next(lines, None)
    if first is None:
        raise InvalidHeader("the session file is empty")
    try:
        raw = decode(first.content)
    except Damaged as damage:
        raise InvalidHeader(f"the session header is {damage}") from None
    return Header.parse(raw), raw


def _migrated(file: BinaryIO) -> Iterator[bytes]:
    """The lines of an older file as version 3."""
    lines = read_lines(file)
    header, raw = _read_header(lines)
    yield migrated_header(raw)
    last: Line | None = None

    def remembered() -> Iterable[Line]:
        nonlocal last
        for line in lines:
            last = line
            yield line

    for content in migrated_lines(header, remembered()):
        yield content + b"\n" if last is None or last.complete else content


def open_journal(directory: ConfinedDirectory, name: str, stamp: str) -> tuple[AppendFile, Loaded]:
    """Lock a session file for writing and read it; ``stamp`` names side files.

    Raises:
        FileBusy: it has a writer, in this process or another.
        InvalidHeader, Refused, NotFound, StorageFailed
    """
    file = AppendFile.open(directory, name)
    try:
        file = _migrated_if_old(directory, file, stamp)
        with file.reading() as content:
            loaded = _load(content, read_header(content), file.read_at)
        problems = list(loaded.problems)
        if loaded.torn is not None:
            kept_in = file.set_tail_aside(loaded.torn.offset, stamp)
            problems.append(Problem(loaded.torn.line, "the last line was cut off", kept_in))
        file.needs_break = loaded.ends_open
    except BaseException:
        file.close()
        raise
    for problem in problems:
        logger.warning("session file damaged", extra={"file": name, "line": problem.line, "reason": problem.reason})
    return file, Loaded(loaded.header, loaded.tree, tuple(problems))


def _migrated_if_old(directory: ConfinedDirectory, file: AppendFile, stamp: str) -> AppendFile:
    with file.reading() as content:
        version = read_header(content).version
    if version == VERSION:
        return file
    original = f"{file.name}.v{version}-{stamp}"
    directory.copy(file.name, original)
    with file.reading() as content, around(Step.SESSION_MIGRATE):
        directory.write(file.name, _migrated(content))
    logger.info("session file migrated", extra={"file": file.name, "original": original})
    migrated = AppendFile.open(directory, file.name)
    file.close()
    return migrated
