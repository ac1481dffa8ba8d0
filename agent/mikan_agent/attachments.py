"""Files that people sent: pulled from the gateway's spool into ``attachments/``, confined, each once.

A file appears under its name whole or not at all. One that cannot be had is noted beside its message and in the log
line; the message itself always goes on.
"""

import asyncio
import logging
import os
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from mikan_agent.backoff import Backoff
from mikan_agent.clock import Clock
from mikan_agent.confined import ConfinedDirectory
from mikan_agent.exceptions import TransferFailed
from mikan_agent.messages import ImageContent
from mikan_agent.pictures import attached_pictures
from mikan_agent.records.exceptions import AlreadyExists, NotFound, StorageError
from mikan_agent.transfers import Transfers
from mikan_api.kill_points import Step, around
from mikan_api.messaging import Attachment, LogEntry

logger = logging.getLogger(__name__)

ATTEMPTS = 4
BOUND = 120.0
"""Seconds for one file: the log, and every run, waits meanwhile."""
MAX_SIZE = 1024**3
"""Bytes; the gateway's own limit is lower."""
_REMEMBERED = 1_000


class Attachments:
    """The ``attachments`` directory of one office."""

    def __init__(self, directory: ConfinedDirectory, transfers: Transfers, clock: Clock) -> None:
        self._directory, self._transfers, self._clock = directory, transfers, clock
        self._retry = Backoff(0.3, 3.0)
        self._failures: OrderedDict[str, str] = OrderedDict()

    def failures(self) -> dict[str, str]:
        """Attachment id -> why it is not there; of the last ones that failed."""
        return dict(self._failures)

    async def pictures(self, attachments: Sequence[Attachment]) -> dict[str, ImageContent]:
        """The pictures among them that a model can be shown, by attachment id."""
        return await asyncio.to_thread(attached_pictures, self._directory, attachments) if attachments else {}

    async def fetch_all(self, entry: LogEntry) -> LogEntry:
        """Fetch an entry's files; the entry returned says of each that is missing why.

        What we sent ourselves came from here and waits nowhere: it is never asked for.
        """
        if entry.from_bot or not entry.message.attachments:
            return entry
        attachments = tuple([await self._fetch(attachment) for attachment in entry.message.attachments])
        return entry.model_copy(update={"message": entry.message.model_copy(update={"attachments": attachments})})

    async def _fetch(self, attachment: Attachment) -> Attachment:
        if attachment.error is not None:
            return attachment
        try:
            if not await asyncio.to_thread(self._has, attachment):
                async with asyncio.timeout(BOUND):
                    with around(Step.ATTACHMENT_PULL):
                        await self._pull(attachment)
        except (TransferFailed, StorageError) as error:
            return self._failed(attachment, str(error))
        except TimeoutError:
            return self._failed(attachment, f"it took longer than {BOUND:.0f} s")
        except OSError as error:
            return self._failed(attachment, error.strerror or type(error).__name__)
        return attachment

    def _failed(self, attachment: Attachment, reason: str) -> Attachment:
        logger.warning("attachment not fetched", extra={"attachment": attachment.id, "reason": reason})
        self._failures[attachment.id] = reason
        while len(self._failures) > _REMEMBERED:
            self._failures.popitem(last=False)
        return attachment.model_copy(update={"error": reason})

    def _has(self, attachment: Attachment) -> bool:
        try:
            return self._directory.stat(attachment.name).st_size == attachment.size
        except NotFound:
            return False

    async def _pull(self, attachment: Attachment) -> None:
        for attempt in range(ATTEMPTS):
            try:
                async with self._transfers.attachment(attachment.id) as content:
                    return await self._store(attachment, content)
            except TransferFailed as error:
                if not error.transient or attempt + 1 == ATTEMPTS:
                    raise
            await self._clock.sleep(self._retry.delay(attempt))
        return None

    async def _store(self, attachment: Attachment, content: AsyncIterator[bytes]) -> None:
        part = f".{secrets.token_hex(8)}.part"
        await asyncio.to_thread(self._directory.mkdir)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = await asyncio.to_thread(self._directory.open_descriptor, part, flags)
        received = 0
        try:
            with os.fdopen(descriptor, "wb") as file:
                async for chunk in content:
                    received += len(chunk)
                    if received > MAX_SIZE:
                        raise TransferFailed("the file is larger than it may be")
                    await asyncio.to_thread(_write, file.fileno(), chunk)
                await asyncio.to_thread(os.fsync, file.fileno())
            if attachment.size and received != attachment.size:
                raise TransferFailed(f"{received} bytes came instead of {attachment.size}", transient=True)
            # What stands there already was put there by the sandbox, under a unique name.
            with suppress(AlreadyExists), around(Step.ATTACHMENT_PUBLISH):
                await asyncio.to_thread(self._directory.rename, part, attachment.name)
        finally:
            with suppress(NotFound):
                await asyncio.to_thread(self._directory.remove, part)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
