"""The mounted files that may change while the operator runs: global settings and token keys.

The kubelet swaps a mounted directory by one link, so a look at the files' identity every few seconds tells of a change.
What became unusable is reported once and the last good value stays in force.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mikan_api.exceptions import ConfigError, InvalidSettings
from mikan_api.settings import Settings, parse_settings
from mikan_api.tokens import MIN_KEY_BYTES

CHECK_SECONDS = 2.0
_MAX_BYTES = 1024 * 1024
_SETTINGS, _OVERRIDES = "settings.json", "overrides.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class TokenKeys:
    """The current keys that office tokens are issued with. Has no useful ``repr``, on purpose."""

    gateway: bytes
    models: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Inputs:
    """What holds now."""

    settings: Settings
    keys: TokenKeys


def read_inputs(settings_dir: Path, keys_dir: Path) -> Inputs:
    """Read both directories.

    Raises:
        ConfigError: a file is missing or wrong; the message names it and no value.
    """
    try:
        overrides = settings_dir / _OVERRIDES
        settings = parse_settings(_text(settings_dir / _SETTINGS), _text(overrides) if overrides.exists() else "{}")
    except (OSError, InvalidSettings, UnicodeDecodeError) as error:
        raise ConfigError(f"MIKAN_SETTINGS_DIR: {settings_dir}: {error}") from None
    return Inputs(settings, TokenKeys(_key(keys_dir / "gateway"), _key(keys_dir / "models")))


def _text(file: Path) -> str:
    if file.stat().st_size > _MAX_BYTES:
        raise InvalidSettings(f"{file.name} is larger than {_MAX_BYTES} bytes")
    return file.read_text()


def _key(file: Path) -> bytes:
    try:
        key = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"MIKAN_KEYS_DIR: {file}: {error.strerror}") from None
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError(f"MIKAN_KEYS_DIR: {file} holds fewer than {MIN_KEY_BYTES} bytes")
    return key


class MountedInputs:
    """Holds the inputs and follows their files."""

    def __init__(self, settings_dir: Path, keys_dir: Path) -> None:
        """Read them for the first time.

        Raises:
            ConfigError: see `read_inputs`.
        """
        self._directories = (settings_dir, keys_dir)
        self._files = (
            settings_dir / _SETTINGS,
            settings_dir / _OVERRIDES,
            keys_dir / "gateway",
            keys_dir / "models",
        )
        self._stamp = self._look()
        self.current = read_inputs(*self._directories)
        self.fault = ""

    async def follow(self, changed: Callable[[], None]) -> None:
        """Look for changes until cancelled; ``changed`` is called after a new value holds."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if await self.refresh():
                changed()

    async def refresh(self) -> bool:
        """Read again if the files changed. Returns whether a new value holds."""
        stamp = await asyncio.to_thread(self._look)
        if stamp == self._stamp:
            return False
        try:
            read = await asyncio.to_thread(read_inputs, *self._directories)
        except ConfigError as error:
            if self.fault != str(error):
                logger.error("mounted files not taken over", extra={"reason": str(error)})
            self.fault = str(error)
            return False
        changed = read != self.current
        self._stamp, self.fault, self.current = stamp, "", read
        if changed:
            logger.info("settings or keys changed")
        return changed

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_identity(file) for file in self._files)


def _identity(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
