"""Which file a session key has, and how sessions begin, are reset and are listed.

A top-level session is named by ``sessions/current`` and has a file ``<timestamp>_<uuid>.jsonl``; a thread has the fixed
name that `mikan_api.session_keys.thread_file_name` gives and remembers the session it grew from (behaviour, "Sessions
and log"). Files are never deleted here.
"""

import asyncio
import logging
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mikan_agent.clock import Clock, SystemClock
from mikan_agent.confined import ConfinedDirectory
from mikan_agent.records.append_file import AppendFile
from mikan_agent.records.exceptions import NotFound, Refused
from mikan_agent.records.lines import encode, iso, stamp
from mikan_agent.sessions.exceptions import InvalidHeader, InvalidPointer
from mikan_agent.sessions.form import Header
from mikan_agent.sessions.journal import Loaded, load, open_journal, read_header
from mikan_agent.sessions.session import Session
from mikan_api.kill_points import Step, around
from mikan_api.session_keys import SessionKey, thread_file_name, thread_suffix_of

logger = logging.getLogger(__name__)

POINTER = "current"
_SESSION_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,199}\.jsonl")
_POINTER_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class SessionFile:
    """One file of the sessions directory, for lists and viewers."""

    name: str
    header: Header
    size: int
    """Bytes."""
    is_current: bool
    """The top-level session of now."""


class SessionStore:
    """The session files of one office."""

    def __init__(self, directory: ConfinedDirectory, cwd: str, clock: Clock | None = None) -> None:
        """``directory``: the real ``sessions`` directory; ``cwd``: the office directory as the model knows it."""
        self._directory = directory
        self._cwd = cwd
        self._clock = clock or SystemClock()

    async def open(self, key: SessionKey) -> Session:
        """Open the session of a key, making it if there is none.

        Raises:
            FileBusy: it is open already, here or elsewhere.
            InvalidHeader, InvalidPointer: its history is damaged at the root; nothing was replaced.
            Refused: a link or something else that is no file stands in its place.
            StorageFailed: disk full, permission, I/O.
        """
        return await asyncio.to_thread(self._open, key)

    async def reset(self, key: SessionKey, log: int) -> str:
        """Begin afresh; the old file is kept under another name, and a thread keeps its parent.

        Args:
            key: the session.
            log: number of the last entry of the platform log that the fresh session is to hear nothing of.

        Returns:
            The name of the new file.

        Raises:
            FileBusy: the session is open; close it first.
        """
        return await asyncio.to_thread(self._reset, key, log)

    async def files(self) -> list[SessionFile]:
        """Every readable session file, by name; others are named in the log and left out."""
        return await asyncio.to_thread(self._files)

    @asynccontextmanager
    async def reading(self, name: str) -> AsyncIterator[Loaded]:
        """Read a session file beside its writer, changing nothing; entries can be looked at within the block.

        Raises:
            NotFound, InvalidHeader, Refused
        """
        file = await asyncio.to_thread(self._directory.open, _file_name(name))
        with file:
            yield await asyncio.to_thread(load, file)

    def _open(self, key: SessionKey) -> Session:
        self._directory.mkdir()
        suffix = thread_suffix_of(key)
        name = self._current() if suffix is None else thread_file_name(suffix)
        if name is None or not self._directory.exists(name):
            name = self._begin_top_level() if suffix is None else self._begin(thread_file_name(suffix), self._parent())
        file, loaded = open_journal(self._directory, name, self._stamp())
        return Session(file, loaded, self._directory.path / name, self._clock)

    def _reset(self, key: SessionKey, log: int) -> str:
        self._directory.mkdir()
        suffix = thread_suffix_of(key)
        if suffix is None:
            current = self._current_if_usable()
            if current is not None and self._directory.exists(current):
                AppendFile.open(self._directory, current).close()
            return self._begin_top_level(log)
        name = thread_file_name(suffix)
        parent = self._archived(name) if self._directory.exists(name) else self._parent()
        return self._begin(name, parent, log)

    def _archived(self, name: str) -> str | None:
        """Keep a thread's file under another name as well; returns the parent that it remembers."""
        file = AppendFile.open(self._directory, name)
        try:
            with file.reading() as content:
                parent = read_header(content).parent_session
        except InvalidHeader as error:  # a fresh start is the way out of a damaged file
            logger.warning("damaged session set aside", extra={"file": name, "reason": str(error)})
            parent = self._parent()
        finally:
            file.close()
        # The old one goes only when the new one takes its name: a crash in between leaves what was before.
        with around(Step.SESSION_ARCHIVE):
            self._directory.copy(name, f"{name.removesuffix('.jsonl')}~{self._stamp()}.jsonl")
        return parent

    def _begin_top_level(self, log: int | None = None) -> str:
        """The file first, then the pointer: a crash in between leaves an empty session that nobody names."""
        name = self._begin(f"{self._stamp()}_{uuid.uuid4()}.jsonl", None, log)
        with around(Step.SESSION_POINT):
            self._directory.write(POINTER, f"{name}\n".encode())
        return name

    def _begin(self, name: str, parent: str | None, log: int | None = None) -> str:
        header = Header(str(uuid.uuid4()), iso(self._clock.now()), self._cwd, parent_session=parent, log=log)
        with around(Step.SESSION_BEGIN):
            self._directory.write(name, encode(header.to_json()))
        return name

    def _parent(self) -> str | None:
        """The path of the session that a thread grows from: the top-level one of now."""
        current = self._current_if_usable()
        return str(self._directory.path / current) if current and self._directory.exists(current) else None

    def _current(self) -> str | None:
        try:
            content = self._directory.read(POINTER, _POINTER_LIMIT)
        except NotFound:
            return None
        return _file_name(content.decode(errors="replace").strip())

    def _current_if_usable(self) -> str | None:
        try:
            return self._current()
        except InvalidPointer as error:
            logger.warning("damaged session pointer", extra={"reason": str(error)})
            return None

    def _files(self) -> list[SessionFile]:
        found = []
        current = self._current_if_usable()
        for name in self._directory.names():
            if not _SESSION_FILE.fullmatch(name):
                continue
            try:
                with self._directory.open(name) as file:
                    header = read_header(file)
                size = self._directory.stat(name).st_size
            except (InvalidHeader, Refused) as error:
                logger.warning("not a readable session file", extra={"file": name, "reason": str(error)})
                continue
            found.append(SessionFile(name, header, size, name == current))
        return found

    def _stamp(self) -> str:
        return stamp(self._clock.now())


def _file_name(name: str) -> str:
    if not _SESSION_FILE.fullmatch(name):
        raise InvalidPointer(f"{name[:200]!r} is not the name of a session file")
    return name
