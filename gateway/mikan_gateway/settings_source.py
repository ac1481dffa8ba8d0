"""The settings as mounted from ConfigMaps, read again when they change.

The kubelet replaces a mounted ConfigMap by turning a link, so the files' identity tells of a change. A document that
became invalid is reported and the last good one stays in force.
"""

import asyncio
import logging
from pathlib import Path

from mikan_api.exceptions import ConfigError, InvalidSettings
from mikan_api.settings import Settings, parse_settings
from mikan_gateway.ports import Health

SETTINGS_FILE = "settings.json"
OVERRIDES_FILE = "overrides.json"
MAX_BYTES = 1024 * 1024
CHECK_SECONDS = 2.0

logger = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]


class MountedSettings:
    """Implements `SettingsSource` over a directory."""

    def __init__(self, directory: Path, check_seconds: float = CHECK_SECONDS) -> None:
        """Read the settings for the first time.

        Raises:
            ConfigError: there are none, or they are invalid; the message names file and fields.
        """
        self._directory = directory
        self._check_seconds = check_seconds
        self._fault = ""
        self._task: asyncio.Task[None] | None = None
        try:
            self._stamp = self._look()
            self._current = self._read()
        except (OSError, InvalidSettings, UnicodeDecodeError) as error:
            raise ConfigError(f"settings in {directory}: {error}") from None

    @property
    def current(self) -> Settings:
        """The settings in force; the same object until they change."""
        return self._current

    def health(self) -> Health:
        """Not well while the files hold something that cannot be used."""
        return Health(not self._fault, self._fault)

    def start(self) -> None:
        """Look for changes, in the background."""
        self._task = asyncio.create_task(self._follow(), name="settings")

    async def stop(self) -> None:
        """Look no more."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._check_seconds)
            await self.refresh()

    async def refresh(self) -> None:
        """Read the files again if they changed."""
        try:
            stamp = await asyncio.to_thread(self._look)
            if stamp == self._stamp:
                return
            read = await asyncio.to_thread(self._read)
        except (OSError, InvalidSettings, UnicodeDecodeError) as error:
            if self._fault != str(error):
                logger.error("settings not taken over", extra={"reason": str(error)})
            self._fault = str(error)
            return
        self._stamp, self._fault = stamp, ""
        if read != self._current:
            self._current = read
            logger.info("settings changed")

    def _look(self) -> _Stamp:
        files = (self._directory / SETTINGS_FILE, self._directory / OVERRIDES_FILE)
        found = [file.stat() for file in files if file is files[0] or file.exists()]
        return tuple((s.st_ino, s.st_mtime_ns, s.st_size) for s in found)

    def _read(self) -> Settings:
        overrides = self._directory / OVERRIDES_FILE
        return parse_settings(_text(self._directory / SETTINGS_FILE), _text(overrides) if overrides.exists() else "{}")


def _text(file: Path) -> str:
    if file.stat().st_size > MAX_BYTES:
        raise InvalidSettings(f"{file.name} is larger than {MAX_BYTES} bytes")
    return file.read_text()
