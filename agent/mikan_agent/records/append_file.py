"""A file of lines that only grows, with one writer.

Shared by session files and the platform log (known fault "Crash in the middle of an append to a JSONL"). The cost of an
append does not depend on the size of the file. Methods block; callers serialise them.
"""

import fcntl
import os
from contextlib import suppress
from typing import BinaryIO

from mikan_agent.confined import ConfinedDirectory, translated
from mikan_agent.records.exceptions import FileBusy, FileClosed
from mikan_api.kill_points import Step, around


class AppendFile:
    """An open file and its writer lock, which dies with the process."""

    def __init__(self, directory: ConfinedDirectory, name: str, descriptor: int) -> None:
        self._directory = directory
        self.name = name
        """Relative to the directory."""
        self._descriptor: int | None = descriptor
        self.needs_break = False
        """The file does not end with a line break, so the next append begins with one."""

    @classmethod
    def open(cls, directory: ConfinedDirectory, name: str, create: bool = False) -> "AppendFile":
        """Open a file for reading and appending and lock it.

        Raises:
            FileBusy: it has a writer, in this process or another.
            Refused, NotFound, StorageFailed
        """
        descriptor = directory.open_descriptor(name, os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0))
        try:
            _lock(descriptor, name)
            if os.fstat(descriptor).st_ino != directory.stat(name).st_ino:
                raise FileBusy(f"{name!r} was replaced while it was opened")
        except BaseException:
            os.close(descriptor)
            raise
        return cls(directory, name, descriptor)

    @property
    def closed(self) -> bool:
        """The lock was given back."""
        return self._descriptor is None

    def reading(self) -> BinaryIO:
        """The content from the start; closing it leaves this file open."""
        os.lseek(self._open_descriptor(), 0, os.SEEK_SET)
        return os.fdopen(self._open_descriptor(), "rb", buffering=1 << 20, closefd=False)

    def read_at(self, offset: int, length: int) -> bytes:
        """A part of the content.

        Raises:
            FileClosed: after `close`.
            StorageFailed: the system refused.
        """
        with translated(self.name):
            return os.pread(self._open_descriptor(), length, offset)

    def append(self, lines: bytes, durable: bool) -> int:
        """Add whole lines, line breaks included: all of them, or nothing.

        Returns:
            Where they begin.

        Raises:
            FileClosed: after `close`.
            StorageFailed: disk full or the like; what was written is taken back.
        """
        descriptor = self._open_descriptor()
        content = b"\n" + lines if self.needs_break else lines
        with translated(self.name):
            size = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, content)
                if durable:
                    os.fsync(descriptor)
            except OSError:
                self._take_back(descriptor, size)
                raise
        self.needs_break = False
        return size + len(content) - len(lines)

    def _take_back(self, descriptor: int, size: int) -> None:
        had_break, self.needs_break = not self.needs_break, True
        # If even this fails, the next append starts on a new line and the next reader reports the torn one.
        with suppress(OSError):
            os.ftruncate(descriptor, size)
            self.needs_break = not had_break

    def set_tail_aside(self, offset: int, stamp: str) -> str:
        """Move everything from ``offset`` on into a side file, which is named in the answer."""
        with self.reading() as content:
            content.seek(offset)
            tail = content.read()
        side = f"{self.name}.torn-{stamp}"
        self._directory.append(side, tail)
        with around(Step.TORN_TAIL), translated(self.name):
            os.ftruncate(self._open_descriptor(), offset)
            os.fsync(self._open_descriptor())
        return side

    def sync(self) -> None:
        """Make everything appended so far durable."""
        with translated(self.name):
            os.fsync(self._open_descriptor())

    def close(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise FileClosed(f"{self.name!r} is closed")
        return self._descriptor


def _lock(descriptor: int, name: str) -> None:
    with translated(name):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileBusy(f"{name!r} has a writer already") from None


def _write_all(descriptor: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
