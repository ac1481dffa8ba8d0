"""ConfigMaps and Secrets as mounted into every process, read again when they change.

The kubelet mounts them as directories and replaces what they hold by a rename of what a link points to, so a change
shows in the names, inodes, sizes and times of the files. They are looked at every two seconds, in a thread: the kubelet
itself takes longer to bring a change. A change that cannot be used keeps the last good value and says why.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from mikan_api.exceptions import ConfigError, InvalidSettings
from mikan_api.settings import Settings, parse_settings
from mikan_api.tokens import MIN_KEY_BYTES

CHECK_SECONDS = 2.0
SETTINGS_FILE, OVERRIDES_FILE = "settings.json", "overrides.json"
MAX_SETTINGS_BYTES = 1024 * 1024

logger = logging.getLogger(__name__)

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
    """Something that looks at its files when told to, and tells whether a new value holds."""

    async def refresh(self) -> bool: ...


class Reloaded(Generic[T]):
    """A value loaded from the files in some directories. Its ``repr`` does not show the value."""

    def __init__(
        self,
        name: str,
        load: Callable[[], T],
        directories: Callable[[T], Sequence[Path]],
        current: T,
        seen: Stamp | None = None,
    ) -> None:
        """Hold a value before anything is read.

        Args:
            name: for the log.
            load: blocking; raises `ConfigError`, whose message holds no secret.
            directories: which ones to watch, given the current value.
            current: what holds until the first load.
            seen: the state of the directories that it was read from.
        """
        self._name, self._load, self._directories = name, load, directories
        self._current, self._stamp = current, seen
        self._fault = ""

    @classmethod
    def read(cls, name: str, load: Callable[[], T], directories: Sequence[Path]) -> "Reloaded[T]":
        """Load for the first time. Blocking.

        Raises:
            ConfigError: that of ``load``.
        """
        seen = stamp(directories)
        return cls(name, load, lambda _: directories, load(), seen)

    @property
    def current(self) -> T:
        """The last good value; the same object until it changes."""
        return self._current

    @property
    def fault(self) -> str:
        """Why the files as they are now cannot be used; empty if they can."""
        return self._fault

    async def refresh(self) -> bool:
        """Look at the files, and load them if they changed or could not be used. Returns whether a new value holds."""
        return await asyncio.to_thread(self._refresh)

    def _refresh(self) -> bool:
        seen = stamp(self._directories(self._current))
        if seen == self._stamp and not self._fault:
            return False
        try:
            loaded = self._load()
        except ConfigError as error:
            if self._fault != str(error):
                logger.error("mounted files not taken over", extra={"files": self._name, "reason": str(error)})
            self._fault = str(error)
            return False
        # From before the load: what changed meanwhile, or is watched only now, makes for one more.
        self._stamp, self._fault = seen, ""
        if loaded == self._current:
            return False
        self._current = loaded
        logger.info("mounted files taken over", extra={"files": self._name})
        return True


async def follow(sources: Sequence[Refreshed], changed: Callable[[], None] = lambda: None) -> None:
    """Refresh until cancelled; ``changed`` is called after a new value holds."""
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        if any([await source.refresh() for source in sources]):
            changed()


@asynccontextmanager
async def following(*sources: Refreshed) -> AsyncIterator[None]:
    """`follow` in the background."""
    task = asyncio.create_task(follow(sources), name="mounted files")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def read_file(file: Path, variable: str) -> bytes:
    """A file's content. Blocking.

    Raises:
        ConfigError: it cannot be read; the message names it and the variable that led to it.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{variable}: {file}: {error.strerror}") from None


def read_ascii(file: Path, variable: str) -> str:
    """A file of ASCII, without white space around it. Blocking.

    Raises:
        ConfigError: it cannot be read or is none.
    """
    try:
        return read_file(file, variable).decode("ascii").strip()
    except UnicodeDecodeError:
        raise ConfigError(f"{variable}: {file} is not ASCII") from None


def read_token_key(file: Path) -> bytes:
    """A key that office tokens are made with. Blocking.

    Raises:
        ConfigError: it cannot be read or is too short.
    """
    key = read_file(file, "MIKAN_KEYS_DIR")
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError(f"MIKAN_KEYS_DIR: {file} holds fewer than {MIN_KEY_BYTES} bytes")
    return key


def read_token_keys(directory: Path) -> tuple[bytes, ...]:
    """The keys that a verifier accepts: ``current``, and during a rotation ``previous``. Blocking.

    Raises:
        ConfigError: see `read_token_key`.
    """
    current, previous = directory / "current", directory / "previous"
    return (read_token_key(current), *([read_token_key(previous)] if previous.exists() else []))


def read_settings(directory: Path) -> Settings:
    """The settings, with the overrides if there are any. Blocking.

    Raises:
        ConfigError: there are none, or they are invalid; the message names file and fields.
    """
    overrides = directory / OVERRIDES_FILE
    try:
        return parse_settings(_text(directory / SETTINGS_FILE), _text(overrides) if overrides.exists() else "{}")
    except (OSError, InvalidSettings, UnicodeDecodeError) as error:
        raise ConfigError(f"settings in {directory}: {error}") from None


def _text(file: Path) -> str:
    if file.stat().st_size > MAX_SETTINGS_BYTES:
        raise InvalidSettings(f"{file.name} is larger than {MAX_SETTINGS_BYTES} bytes")
    return file.read_text("utf-8")
