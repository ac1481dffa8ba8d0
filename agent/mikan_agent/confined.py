"""Files under a directory that untrusted code may write to, reached without ever following a link.

The one way for this process to touch an office directory, the shared volume, or its own records (architecture
section 6). Every segment of a path is opened relative to the one before it and never through a symbolic link, so what a
sandbox does to the tree in the meantime cannot lead outside: there is no ``..`` to go up by and no link to go along.

All methods block. Coroutines call them through `asyncio.to_thread`.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from mikan_agent.records.exceptions import (
    AlreadyExists,
    NotFound,
    NotRegular,
    StorageError,
    StorageFailed,
    SymlinkRefused,
    TooLarge,
    UnsafePath,
)

MAX_DEPTH = 64
DIRECTORY_MODE = 0o770
FILE_MODE = 0o660

_NEVER_FOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | _NEVER_FOLLOW
_FILE = os.O_NONBLOCK | os.O_NOCTTY | _NEVER_FOLLOW


class ConfinedDirectory:
    """A directory and everything beneath it, by relative path.

    ``root`` itself is trusted: it is a mount point, or a directory that only this process writes to. A directory that
    untrusted code can replace is reached from a trusted one with `directory`.
    """

    def __init__(self, root: Path | PurePosixPath | str) -> None:
        self._root = str(root)
        self._prefix: tuple[str, ...] = ()

    @property
    def path(self) -> PurePosixPath:
        """Where this is, for messages and for paths shown to a model; never to be opened directly."""
        return PurePosixPath(self._root, *self._prefix)

    def directory(self, path: str) -> "ConfinedDirectory":
        """The same confinement, starting further down; nothing is opened yet."""
        below = ConfinedDirectory(self._root)
        below._prefix = (*self._prefix, *segments(path))
        return below

    def open_descriptor(self, path: str, flags: int, mode: int = FILE_MODE) -> int:
        """Open a regular file and return its descriptor. ``flags`` must not truncate.

        Raises:
            Refused: a link on the way, something that is not a regular file, or an unsafe path.
            NotFound, AlreadyExists, StorageFailed: as the system says.
        """
        with self._parent(path) as (parent, name), translated(path):
            descriptor = os.open(name, flags | _FILE, mode, dir_fd=parent)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
            raise NotRegular(f"{path!r} is not a regular file")

    def open(self, path: str) -> BinaryIO:
        """Open a regular file for reading."""
        return os.fdopen(self.open_descriptor(path, os.O_RDONLY), "rb", buffering=1 << 20)

    def read(self, path: str, limit: int) -> bytes:
        """The whole content of a file.

        Raises:
            TooLarge: it has more than ``limit`` bytes.
        """
        with self.open(path) as file, translated(path):
            content = file.read(limit + 1)
        if len(content) > limit:
            raise TooLarge(f"{path!r} is larger than {limit} bytes")
        return content

    def write(self, path: str, content: bytes | Iterable[bytes], mode: int = FILE_MODE) -> None:
        """Replace a file as a whole, durably: readers see the old content or the new. A link there is replaced."""
        with self._parent(path) as (parent, name), translated(path):
            staged = f".{name[:200]}.{secrets.token_hex(6)}.tmp"
            try:
                descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=parent)
                with os.fdopen(descriptor, "wb") as file:
                    file.writelines([content] if isinstance(content, bytes) else content)
                    file.flush()
                    os.fsync(descriptor)
                os.rename(staged, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                _unlink_quietly(staged, parent)
                raise
            os.fsync(parent)

    def append(self, path: str, content: bytes, mode: int = FILE_MODE) -> None:
        """Add to the end of a file, durably, making the file if need be."""
        descriptor = self.open_descriptor(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
        with os.fdopen(descriptor, "ab") as file, translated(path):
            file.write(content)
            file.flush()
            os.fsync(descriptor)

    def names(self, path: str = "", limit: int | None = None) -> list[str]:
        """Names in a directory, sorted.

        Raises:
            TooLarge: it has more than ``limit``.
        """
        below, most = segments(path) if path else (), None if limit is None else limit + 1
        with self._walk(below) as descriptor, translated(path), os.scandir(descriptor) as entries:
            found = sorted(entry.name for entry in islice(entries, most))
        if limit is not None and len(found) > limit:
            raise TooLarge(f"{path!r} holds more than {limit} names")
        return found

    def mkdir(self, path: str = "") -> None:
        """Make a directory and those above it; what exists stays.

        Raises:
            Refused: a link, or something that is no directory, is in the way.
        """
        wanted = (*self._prefix, *(segments(path) if path else ()))
        with translated(path):
            descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for segment in wanted:
                try:
                    with suppress(FileExistsError):  # opened next, and refused there if it is no directory
                        os.mkdir(segment, DIRECTORY_MODE, dir_fd=descriptor)
                    below = _open_directory(segment, descriptor)
                finally:
                    os.close(descriptor)
                descriptor = below
            os.close(descriptor)

    def stat(self, path: str) -> os.stat_result:
        """What is at ``path`` itself; a link is described, not followed."""
        with self._parent(path) as (parent, name), translated(path):
            return os.stat(name, dir_fd=parent, follow_symlinks=False)

    def exists(self, path: str) -> bool:
        """Whether anything is at ``path``, a link that leads nowhere included."""
        try:
            self.stat(path)
        except NotFound:
            return False
        return True

    def remove(self, path: str) -> None:
        """Remove a file or a link, never what it points to."""
        with self._parent(path) as (parent, name), translated(path):
            os.unlink(name, dir_fd=parent)

    def rename(self, path: str, new_name: str) -> None:
        """Give what is at ``path`` another name in the same directory.

        Raises:
            AlreadyExists: the new name is taken.
        """
        if len(segments(new_name)) != 1:
            raise UnsafePath(f"{new_name!r} is not a single name")
        with self._parent(path) as (parent, name), translated(path):
            if _exists(new_name, parent):
                raise AlreadyExists(f"{new_name!r} exists")
            os.rename(name, new_name, src_dir_fd=parent, dst_dir_fd=parent)
            os.fsync(parent)

    def copy(self, path: str, new_path: str) -> None:
        """Copy a file's bytes, durably, to a name that is free.

        Raises:
            AlreadyExists: the new name is taken.
        """
        with self.open(path) as source, translated(new_path):
            descriptor = self.open_descriptor(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(descriptor, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
                os.fsync(descriptor)

    def read_link(self, path: str) -> str:
        """Where the link at ``path`` points.

        Raises:
            NotRegular: something else is there.
        """
        with self._parent(path) as (parent, name), translated(path):
            try:
                return os.readlink(name, dir_fd=parent)
            except OSError as error:
                if error.errno == errno.EINVAL:
                    raise NotRegular(f"{path!r} is not a symbolic link") from None
                raise

    def link(self, path: str, target: PurePosixPath | str) -> None:
        """Make a symbolic link for others to follow."""
        with self._parent(path) as (parent, name), translated(path):
            os.symlink(str(target), name, dir_fd=parent)

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        *above, name = segments(path)
        with self._walk(tuple(above)) as descriptor:
            yield descriptor, name

    @contextmanager
    def _walk(self, below: tuple[str, ...]) -> Iterator[int]:
        with translated("/".join(below)):
            descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for segment in (*self._prefix, *below):
                try:
                    next_descriptor = _open_directory(segment, descriptor)
                finally:
                    os.close(descriptor)
                descriptor = next_descriptor
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def segments(path: str) -> tuple[str, ...]:
    """Split a relative path into its names.

    Raises:
        UnsafePath: it is absolute, empty, too deep, or holds ``.``, ``..``, an empty segment or NUL.
    """
    parts = tuple(path.split("/"))
    if len(parts) > MAX_DEPTH:
        raise UnsafePath(f"path of {len(parts)} segments; at most {MAX_DEPTH} are allowed")
    if any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise UnsafePath(f"{path[:200]!r} is not a plain relative path")
    return parts


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn the system's errors into ours; ``path`` is what the message names."""
    try:
        yield
    except UnicodeEncodeError:
        raise UnsafePath(f"{path!r} cannot be a file name") from None
    except OSError as error:
        raise _translate(path, error) from error


_MEANINGS: dict[int | None, tuple[type[StorageError], str]] = {
    errno.ELOOP: (SymlinkRefused, "is or goes through a symbolic link"),
    errno.ENOENT: (NotFound, "does not exist"),
    errno.EEXIST: (AlreadyExists, "exists"),
    errno.ENOTDIR: (NotRegular, "goes through something that is not a directory"),
    errno.EISDIR: (NotRegular, "is a directory"),
    errno.ENXIO: (NotRegular, "is a FIFO, socket or device"),
    errno.ENAMETOOLONG: (UnsafePath, "is too long a name"),
}


def _translate(path: str, error: OSError) -> StorageError:
    kind, meaning = _MEANINGS.get(error.errno, (StorageFailed, f"failed: {error.strerror}"))
    return kind(f"{path[:200]!r} {meaning}")


def _open_directory(name: str, parent: int) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except NotADirectoryError:
        # O_DIRECTORY with O_NOFOLLOW says ENOTDIR for a link too.
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise SymlinkRefused(f"{name!r} is a symbolic link") from None
        raise


def _exists(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _unlink_quietly(name: str, parent: int) -> None:
    with suppress(OSError):  # never made, or renamed already
        os.unlink(name, dir_fd=parent)
