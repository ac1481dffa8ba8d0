"""The database as the gateway uses it: reads at any time, writes in order and many to a commit.

A commit waits for the disk, so writes that arrive meanwhile share the next one (group commit). Each is atomic all the
same: if one of a group fails, the group is rolled back and each is tried alone.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection

from mikan_api.kill_points import Step, after, before
from mikan_gateway.exceptions import StorageError
from mikan_gateway.ports import Health
from mikan_gateway.storage.backends import Backend, CommitUnknown, Work, open_backend
from mikan_gateway.storage.schema import migrate, touch

T = TypeVar("T")

logger = logging.getLogger(__name__)

MAX_GROUP = 100
"""Units of work in one commit."""
PROBE_EVERY = 2.0
"""Seconds between two tries of a database that failed and that nobody else writes to."""


def _nothing(_result: object) -> None:
    return None


@dataclass(slots=True)
class _Write:
    work: Work[Any]
    then: Callable[[Any], None]
    done: "asyncio.Future[Any]"
    step: Step | None = None


class Database:
    """Runs units of work. One process may write at a time (architecture section 1)."""

    def __init__(self, backend: Backend, probe_every: float = PROBE_EVERY) -> None:
        self._backend, self._probe_every = backend, probe_every
        self._queue: deque[_Write] = deque()
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._closing = False
        self._failure = ""
        self._undecided = False
        """Whether the writer is finding out what became of a commit."""

    @classmethod
    async def open(cls, url: str, probe_every: float = PROBE_EVERY) -> "Database":
        """Connect and bring the schema up to date.

        Raises:
            ConfigError: the URL is of neither kind, or the schema is newer than this program.
            StorageError: the database cannot be opened.
        """
        database = cls(open_backend(url), probe_every)
        try:
            await database._backend.write(_migrate)
            after(Step.SCHEMA_COMMIT)
        except BaseException:
            await database._backend.close()
            raise
        database._writer = asyncio.create_task(database._write_for_ever(), name="database-writer")
        return database

    async def close(self) -> None:
        """Commit what was asked for, then disconnect."""
        self._closing = True
        self._wake.set()
        if self._writer is not None:
            await self._writer
        await self._backend.close()

    def health(self) -> Health:
        """Whether the last commit succeeded. A failure is looked into again and again, so it ends by itself.

        It must: while it lasts the process is not ready, and agents that it turned away for it can't come back.
        """
        return Health(not self._failure, self._failure)

    async def read(self, work: Work[T]) -> T:
        """Run ``work`` on what has been committed.

        Raises:
            StorageError: the database failed.
        """
        return await self._backend.read(work)

    async def write(self, work: Work[T], then: Callable[[T], None] = _nothing, step: Step | None = None) -> T:
        """Run ``work`` in a transaction; durable when this returns. ``work`` may run again after a rollback.

        ``then`` is called with the result right after the commit, in the order of commits and even if the caller has
        been cancelled: what is kept in memory beside the database is changed there and nowhere else. ``step`` names
        the commit.

        Raises:
            StorageError: the database failed; nothing was stored.
        """
        if self._closing:
            raise StorageError("the database is closed")
        if self._undecided:
            raise StorageError(self._failure)
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(_Write(work, then, done, step))
        self._wake.set()
        return await done

    async def _write_for_ever(self) -> None:
        while self._queue or not self._closing:
            self._wake.clear()
            if not self._queue:
                await self._wait()
                continue
            group = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_GROUP))]
            if not await self._commit(group):
                for write in group:
                    await self._commit([write])

    async def _wait(self) -> None:
        """Wait for something to write; meanwhile see whether a database that failed takes anything again."""
        try:
            async with asyncio.timeout(self._probe_every if self._failure else None):
                await self._wake.wait()
        except TimeoutError:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            await self._commit([_Write(touch, _nothing, done)])
            done.exception()  # `health` tells of it

    def _note(self, failure: str) -> None:
        """Remember, and log once, that the database fails or works again."""
        if failure and failure != self._failure:
            logger.error("the database fails", extra={"reason": failure})
        elif self._failure and not failure:
            logger.info("the database works again")
        self._failure = failure

    async def _commit(self, group: list[_Write]) -> bool:
        """Commit a group; ``False`` if it failed and its members are to be tried alone."""

        def work(connection: Connection) -> list[Any]:
            results = [write.work(connection) for write in group]
            for write in group:
                if write.step is not None:
                    before(write.step)
            return results

        try:
            results = await self._written(work)
        except Exception as error:  # noqa: BLE001  the writer outlives any unit of work; the caller gets the error
            self._note(str(error) if isinstance(error, StorageError) else self._failure)
            if len(group) > 1:
                return False
            _settle(group[0], error)
            return True
        self._note("")
        for write in group:
            if write.step is not None:
                after(write.step)
        for write, result in zip(group, results, strict=True):
            _finish(write, result)
        return True

    async def _written(self, work: Work[list[Any]]) -> list[Any]:
        """Write; where it is unknown whether a commit was made, find out before anything else is written.

        What is kept in memory follows what is in the database, so neither may be taken for granted.
        """
        try:
            return await self._backend.write(work)
        except CommitUnknown as unknown:
            self._note(str(unknown))
            self._undecided = True
            try:
                while not self._closing:
                    try:
                        if await unknown.outcome():
                            results: list[Any] = unknown.result
                            return results
                    except StorageError:
                        await asyncio.sleep(self._probe_every)
                    else:
                        break
            finally:
                self._undecided = False
            raise


def _migrate(connection: Connection) -> None:
    migrate(connection)
    before(Step.SCHEMA_COMMIT)


def _settle(write: _Write, error: BaseException) -> None:
    if not write.done.done():
        write.done.set_exception(error)


def _finish(write: _Write, result: object) -> None:
    try:
        write.then(result)
    except Exception as error:  # noqa: BLE001  a fault in the caller's code is the caller's to see
        _settle(write, error)
    else:
        if not write.done.done():
            write.done.set_result(result)
