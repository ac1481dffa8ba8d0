"""Files of console conversations: those put there to be attached, and those the bot uploaded.

Ids come from outside and are checked; conversation ids are hashed, so that neither can name another place.
"""

import asyncio
import hashlib
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

from mikan_api.console import ID_PATTERN, MAX_FILE_BYTES
from mikan_api.kill_points import Step, around
from mikan_gateway.exceptions import SpoolRefused
from mikan_gateway.storage.errors import storage_error

LIFE_SECONDS = 30 * 86_400.0
"""How long a file can be fetched."""
_CHUNK = 256 * 1024


class ConsoleFiles:
    """One directory, ``<hash of the conversation>/<file id>``."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, conversation: str, file_id: str) -> Path:
        """Where a file lies, whether or not it does.

        Raises:
            SpoolRefused: no usable id.
        """
        if not re.fullmatch(ID_PATTERN, file_id):
            raise SpoolRefused("not a usable file id", 400)
        return self._root / hashlib.sha256(conversation.encode()).hexdigest()[:32] / file_id

    async def save(self, conversation: str, file_id: str, content: AsyncIterable[bytes]) -> int:
        """Store a file whole; its size. The same id again replaces it.

        Raises:
            SpoolRefused: it is too large or has no usable id.
            StorageError: it could not be written.
        """
        path = self.path(conversation, file_id)
        staged = path.with_name(f".{secrets.token_hex(8)}")
        size = 0
        try:
            await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
            file = await asyncio.to_thread(staged.open, "xb")
            try:
                async for piece in content:
                    size += len(piece)
                    if size > MAX_FILE_BYTES:
                        raise SpoolRefused(f"larger than {MAX_FILE_BYTES} bytes", 413)
                    await asyncio.to_thread(file.write, piece)
            finally:
                await asyncio.to_thread(file.close)
            with around(Step.CONSOLE_FILE):
                await asyncio.to_thread(staged.replace, path)
        except OSError as error:
            raise storage_error(error) from error
        finally:
            await asyncio.to_thread(staged.unlink, missing_ok=True)
        return size

    async def take(self, conversation: str, file_id: str, source: Path) -> int:
        """Copy a file in; its size.

        Raises:
            StorageError: it could not be copied.
        """
        path = self.path(conversation, file_id)
        staged = path.with_name(f".{secrets.token_hex(8)}")

        def copy() -> int:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, staged)
            size = staged.stat().st_size
            with around(Step.CONSOLE_FILE):
                staged.replace(path)
            return size

        try:
            return await asyncio.to_thread(copy)
        except OSError as error:
            raise storage_error(error) from error

    async def read(self, conversation: str, file_id: str) -> AsyncIterator[bytes]:
        """A file's bytes.

        Raises:
            FileNotFoundError: there is none.
        """
        file = await asyncio.to_thread(self.path(conversation, file_id).open, "rb")
        try:
            while chunk := await asyncio.to_thread(file.read, _CHUNK):
                yield chunk
        finally:
            await asyncio.to_thread(file.close)

    async def sweep(self) -> None:
        """Remove what is older than its life."""
        await asyncio.to_thread(_sweep, self._root, time.time() - LIFE_SECONDS)


def _sweep(root: Path, before: float) -> None:
    for path in root.glob("*/*"):
        if path.stat().st_mtime < before:
            path.unlink()
