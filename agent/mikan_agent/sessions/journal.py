"""A session's file: opened once by one writer, read as a stream, appended to and never rewritten.

The cost of an append does not depend on the size of the file. Two exceptions: an older version is written anew once,
beside the kept original, and a torn last line is moved aside (known fault "Crash in the middle of an append").
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.records.append_file import AppendFile
from mikan_agent.records.lines import Damaged, Line, decode, is_object, read_lines
from mikan_agent.sessions.exceptions import InvalidHeader
from mikan_agent.sessions.migration import migrated_header, migrated_lines
from mikan_agent.sessions.tree import VERSION, Header, SessionTree, read_stub
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
            if not tree.add(read_stub(line.content), line.content):
                problems.append(Problem(line.number, "its parent is missing; it hangs on the entry before it"))
        except Damaged as damage:
            if line.complete or is_object(line.content):
                problems.append(Problem(line.number, str(damage)))
            else:
                torn = line
    ends_open = last is not None and not last.complete and torn is None
    return Loaded(header, tree, tuple(problems), torn, ends_open)


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
            loaded = load(content)
        problems = list(loaded.problems)
        if loaded.torn is not None:
            kept_in = file.set_tail_aside(loaded.torn.offset, stamp)
            problems.append(Problem(loaded.torn.number, "the last line was cut off", kept_in))
        file.needs_break = loaded.ends_open
    except BaseException:
        file.close()
        raise
    for problem in problems:
        logger.warning("session file damaged", extra={"file": name, "line": problem.line, "reason": problem.reason})
    return file, Loaded(loaded.header, loaded.tree, tuple(problems))


def _migrated_if_old(directory: ConfinedDirectory, file: AppendFile, stamp: str) -> AppendFile:
    with file.reading() as content:
        lines = read_lines(content)
        header, raw = _read_header(lines)
        if header.version == VERSION:
            return file
        bodies = [line.content + b"\n" * line.complete for line in _migrated(header, lines)]
    original = f"{file.name}.v{header.version}-{stamp}"
    directory.copy(file.name, original)
    with around(Step.SESSION_MIGRATE):
        directory.write(file.name, migrated_header(raw) + b"".join(bodies))
    logger.info("session file migrated", extra={"file": file.name, "original": original})
    migrated = AppendFile.open(directory, file.name)
    file.close()
    return migrated
