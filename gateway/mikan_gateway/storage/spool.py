"""Bytes on their way, as files: attachments in, uploads out. Only the gateway writes here; ids come from outside.

A file appears under its name only when it is whole and on disk.
"""

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterable, Collection
from pathlib import Path

from mikan_api.identity import OfficeKey, parse_office_key
from mikan_api.kill_points import Step, around
from mikan_gateway.exceptions import SpoolRefused
from mikan_gateway.storage.errors import storage_error

MAX_FILE = 100 * 1024 * 1024
MAX_OFFICE = 1024 * 1024 * 1024
"""Bytes of uploads that one office may have waiting."""
MAX_OFFICE_FILES = 1_000
"""Uploads that one office may have waiting, however small."""
LIFE = 7 * 86_400.0
"""Seconds after which what nobody asked for goes."""
PART_LIFE = 3_600.0
"""Seconds after which a file that nothing was added to counts as broken off."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_CHUNK = 1024 * 1024


class SpoolDirectory:
    """The spool under one directory: ``<kind>/<office>/<id>``."""

    def __init__(
        self,
        root: Path,
        *,
        max_file: int = MAX_FILE,
        max_office: int = MAX_OFFICE,
        max_office_files: int = MAX_OFFICE_FILES,
    ) -> None:
        self._root = root
        self._max_file, self._max_office, self._max_office_files = max_file, max_office, max_office_files

    def attachment(self, office: OfficeKey, attachment_id: str) -> Path:
        """Where an attachment lies.

        Raises:
            SpoolRefused: no usable id.
        """
        return self._path("attachments", office, attachment_id)

    def blob(self, office: OfficeKey, blob_id: str) -> Path:
        """Where an agent's upload lies.

        Raises:
            SpoolRefused: no usable id.
        """
        return self._path("blobs", office, blob_id)

    async def save_attachment(self, office: OfficeKey, attachment_id: str, content: AsyncIterable[bytes]) -> int:
        """Store an attachment whole; its size.

        Raises:
            SpoolRefused: the id is unusable or the file too large.
            StorageError: it could not be written.
        """
        return await self._save(self.attachment(office, attachment_id), content)

    async def save_blob(self, office: OfficeKey, blob_id: str, content: AsyncIterable[bytes]) -> int:
        """Store an upload whole; its size. Storing the same id again replaces it.

        Raises:
            SpoolRefused: the id is unusable, the file too large, or the office has too much waiting.
            StorageError: it could not be written.
        """
        path = self.blob(office, blob_id)
        files, size = await asyncio.to_thread(_waiting, path.parent)
        if size > self._max_office or files >= self._max_office_files:
            raise SpoolRefused("too many uploads of this office are waiting to be sent", 507)
        return await self._save(path, content)

    async def discard_blob(self, office: OfficeKey, blob_id: str) -> None:
        """Remove an upload that has been sent."""
        with around(Step.FILE_DISCARD):
            await asyncio.to_thread(self.blob(office, blob_id).unlink, missing_ok=True)

    async def discard_attachment(self, office: OfficeKey, attachment_id: str) -> None:
        """Remove an attachment that the office has now."""
        with around(Step.FILE_DISCARD):
            await asyncio.to_thread(self.attachment(office, attachment_id).unlink, missing_ok=True)

    async def sweep(self, up_to_date: Collection[OfficeKey] = ()) -> int:
        """Remove what was broken off, and what has waited for too long; how many files.

        Args:
            up_to_date: offices that have all of their log, and so asked for each attachment that they wanted.

        Raises:
            StorageError: it could not be removed.
        """
        with around(Step.FILE_SWEEP):
            try:
                return await asyncio.to_thread(_sweep, self._root, time.time(), up_to_date)
            except OSError as error:
                raise storage_error(error) from error

    async def sweep_offices(self, existing: Collection[OfficeKey], before: float) -> int:
        """Remove what waits for offices that are gone, if nothing was added to it since a time; how many directories.

        Raises:
            StorageError: it could not be removed.
        """
        try:
            return await asyncio.to_thread(_sweep_offices, self._root, existing, before)
        except OSError as error:
            raise storage_error(error) from error

    def _path(self, kind: str, office: OfficeKey, name: str) -> Path:
        if not _ID.fullmatch(name):
            raise SpoolRefused("not a usable id: letters, digits, '.', '_' and '-', at most 200", 400)
        return self._root / kind / parse_office_key(office) / name

    async def _save(self, path: Path, content: AsyncIterable[bytes]) -> int:
        staged = path.with_name(f".{secrets.token_hex(8)}.part")
        try:
            size = await self._stage(staged, content)
            with around(Step.FILE_PUBLISH):
                await asyncio.to_thread(_publish, staged, path)
        except OSError as error:
            raise storage_error(error) from error
        finally:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(staged.unlink, missing_ok=True)
        return size

    async def _stage(self, staged: Path, content: AsyncIterable[bytes]) -> int:
        size = 0
        buffer = bytearray()
        await asyncio.to_thread(_create, staged)
        async for piece in content:
            size += len(piece)
            if size > self._max_file:
                raise SpoolRefused(f"larger than {self._max_file} bytes", 413)
            buffer += piece
            if len(buffer) >= _CHUNK:
                await asyncio.to_thread(_append, staged, bytes(buffer))
                buffer.clear()
        await asyncio.to_thread(_append, staged, bytes(buffer))
        return size


def _create(staged: Path) -> None:
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.touch(mode=0o600)


def _append(staged: Path, data: bytes) -> None:
    with staged.open("ab") as file:
        file.write(data)


def _publish(staged: Path, path: Path) -> None:
    with staged.open("rb") as file:
        os.fsync(file.fileno())
    staged.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _waiting(directory: Path) -> tuple[int, int]:
    """How many files there are, and their bytes."""
    try:
        with os.scandir(directory) as entries:
            sizes = [entry.stat().st_size for entry in entries]
    except FileNotFoundError:
        return 0, 0
    return len(sizes), sum(sizes)


def _sweep_offices(root: Path, existing: Collection[OfficeKey], before: float) -> int:
    gone = [
        directory
        for kind in ("attachments", "blobs")
        for directory in root.glob(f"{kind}/*")
        if directory.name not in existing and directory.stat().st_mtime < before
    ]
    for directory in gone:
        shutil.rmtree(directory)
    return len(gone)


def _sweep(root: Path, now: float, up_to_date: Collection[OfficeKey]) -> int:
    waited = {path for path in root.glob("blobs/*/*") if _is_older(path, now - LIFE)}
    for office in up_to_date:
        waited |= {path for path in root.glob(f"attachments/{office}/*") if _is_older(path, now - LIFE)}
    stale = waited | {path for path in root.glob("*/*/.*.part") if _is_older(path, now - PART_LIFE)}
    for path in stale:
        path.unlink(missing_ok=True)
    return len(stale)


def _is_older(path: Path, than: float) -> bool:
    try:
        return path.stat().st_mtime < than
    except FileNotFoundError:
        return False  # just published, fetched or sent
