"""From the gateway's log batches to ``log.jsonl``: in order, files first, told to the gateway once on disk.

Files first, since the gateway may drop a file from its spool once the entry counts as written.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence

from mikan_agent.attachments import Attachments
from mikan_agent.backoff import Backoff
from mikan_agent.clock import Clock
from mikan_agent.records.exceptions import LogGap, StorageError
from mikan_agent.records.log import PlatformLog
from mikan_api.messaging import LogEntry
from mikan_api.session_keys import SessionKey
from mikan_api.wire import LogBatch

logger = logging.getLogger(__name__)

QUEUED = 16
"""Batches that wait; then the connection's reader does."""
POST_WAIT = 3.0
"""Seconds that a new thread waits for the answer before it to be shown."""
_REMEMBERED = 1_000


class Logbook:
    """Writes batches one after another; runs wait here for the entries they build on."""

    def __init__(
        self,
        log: PlatformLog,
        attachments: Attachments,
        clock: Clock,
        *,
        written: Callable[[int], None],
        gap: Callable[[str], None],
    ) -> None:
        """``written`` hears each new last number; ``gap`` that the gateway must be asked to start again."""
        self._log, self._attachments, self._clock = log, attachments, clock
        self._written, self._gap = written, gap
        self._queue: asyncio.Queue[LogBatch] = asyncio.Queue(QUEUED)
        self._changed = asyncio.Condition()
        self._fault: StorageError | None = None
        self._retry = Backoff(0.5, 15.0)
        self._posts: OrderedDict[SessionKey, int] = OrderedDict()
        """The last post of ours for each session, of those since this process began."""

    @property
    def last_number(self) -> int:
        """Number of the last entry on disk."""
        return self._log.last_number

    async def add(self, batch: LogBatch) -> None:
        """Take a batch; waits while many do."""
        await self._queue.put(batch)

    async def reached(self, number: int) -> None:
        """Wait until the entry of this number is on disk.

        Raises:
            StorageError: the log cannot be written.
        """
        if self._log.last_number >= number:
            return
        async with self._changed:
            await self._changed.wait_for(lambda: self._log.last_number >= number or self._fault is not None)
        if self._log.last_number < number and self._fault is not None:
            raise self._fault

    async def posted(self, key: SessionKey, after: int) -> None:
        """Wait until a post of ours for this session is on disk that comes after entry ``after``; not for long.

        A platform takes a moment to show an answer; it may also never do.
        """
        waits = {
            asyncio.create_task(self._has_posted(key, after)),
            asyncio.create_task(self._clock.sleep(POST_WAIT)),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _has_posted(self, key: SessionKey, after: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._posts.get(key, 0) > after)

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        while True:
            await self._take(await self._queue.get())

    async def _take(self, batch: LogBatch) -> None:
        fresh = [entry for entry in batch.entries if entry.number > self._log.last_number]
        complete = [await self._attachments.fetch_all(entry) for entry in fresh]
        attempt = 0
        while not await self._append(complete, batch.after):
            await self._clock.sleep(self._retry.delay(attempt))
            attempt += 1

    async def _append(self, batch: Sequence[LogEntry], after: int) -> bool:
        """Whether the batch is done with."""
        try:
            number = await self._log.append(batch, after)
        except LogGap as error:
            logger.error("log batch with a gap: %s", error)
            self._gap(str(error))
            return True
        except StorageError as error:
            logger.error("the log cannot be written: %s", error)
            await self._tell(error)
            return False
        self._note_posts(batch)
        await self._tell(None)
        self._written(number)
        return True

    def _note_posts(self, batch: Sequence[LogEntry]) -> None:
        for entry in batch:
            if entry.from_bot and entry.message.session_key is not None:
                self._posts[entry.message.session_key] = entry.number
                self._posts.move_to_end(entry.message.session_key)
        while len(self._posts) > _REMEMBERED:
            self._posts.popitem(last=False)

    async def _tell(self, fault: StorageError | None) -> None:
        async with self._changed:
            self._fault = fault
            self._changed.notify_all()
