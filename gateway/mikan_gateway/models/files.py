"""Values read from mounted files, read again when these change.

ConfigMaps and Secrets are mounted as directories and replaced by a rename of what a link points to, so a change shows
in the names, inodes, sizes and times of the files. They are looked at every two seconds, in a thread: the kubelet
itself takes longer to bring a change. A change that cannot be used keeps the last good value and says why.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from mikan_api.exceptions import ConfigError

logger = logging.getLogger(__name__)

POLL_SECONDS = 2.0
T = TypeVar("T")
Stamp = tuple[tuple[str, int, int, int], ...]


def stamp(directories: Iterable[Path]) -> Stamp:
    """What tells one state of some directories from another. Blocking. A missing directory is an empty one."""
    found: list[tuple[str, int, int, int]] = []
    for directory in directories:
        try:
            paths = sorted(directory.iterdir())
        except OSError:
            continue
        for path in paths:
            try:
                status = path.stat()
            except OSError:  # removed in between, or a dangling link: absent, and seen as such
                continue
            found.append((str(path), status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


class Refreshed(Protocol):
    """Something that looks at its files when told to."""

    async def refresh(self) -> None: ...


class Reloaded(Generic[T]):
    """A value loaded from files in some directories."""

    def __init__(self, name: str, load: Callable[[], T], directories: Callable[[T | None], Sequence[Path]]) -> None:
        """Args: load: blocking, raises `ConfigError`; directories: which ones to watch, given the value."""
        self._name = name
        self._load = load
        self._directories = directories
        self._stamp: Stamp | None = None
        self._value: T | None = None
        self.fault = ""
        """Why the files as they are now cannot be used; empty if they can."""

    @property
    def value(self) -> T | None:
        """The last good value; ``None`` if there never was one."""
        return self._value

    async def refresh(self) -> None:
        """Look at the files, and load them if they changed."""
        await asyncio.to_thread(self._refresh)

    def _refresh(self) -> None:
        seen = stamp(self._directories(self._value))
        if seen == self._stamp:
            return
        first, self._stamp = self._stamp is None, seen
        try:
            self._value = self._load()
        except ConfigError as error:
            self.fault = str(error)
            logger.error("%s cannot be used, the last good one stays: %s", self._name, error)
            return
        self.fault = ""
        # The directories may depend on the value.
        self._stamp = stamp(self._directories(self._value))
        logger.info("%s %s", self._name, "read" if first else "read again after a change")


async def poll(sources: Sequence[Refreshed]) -> None:
    """Refresh for ever."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        for source in sources:
            await source.refresh()


def read_file(path: Path) -> bytes:
    """A file's content. Blocking.

    Raises:
        ConfigError: it cannot be read; the message names it.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
