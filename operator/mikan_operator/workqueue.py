"""A queue of keys to reconcile: each key at most once in it, at most one worker on a key, failures backed off.

The same promises as client-go's rate-limiting work queue. A key added while it is worked on is worked on again after.
Time is the running loop's clock, so tests can drive it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

FIRST_BACKOFF = 0.5
MAX_BACKOFF = 120.0

Key = TypeVar("Key")

logger = logging.getLogger(__name__)


class WorkQueue(Generic[Key]):
    """Keys on their way to ``work``."""

    def __init__(self, work: Callable[[Key], Awaitable[float | None]], workers: int = 8) -> None:
        """``work`` returns after how many seconds it wants to see the key again, or ``None``."""
        self._work = work
        self._workers = workers
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._active: set[Key] = set()
        self._again: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    @property
    def depth(self) -> int:
        """Keys that wait for a worker."""
        return len(self._queued)

    @property
    def busy(self) -> bool:
        """Whether a key waits for a worker or is worked on; timers do not count."""
        return bool(self._queued or self._active)

    def add(self, key: Key) -> None:
        """Have the key worked on as soon as a worker is free."""
        if key in self._active:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Have the key worked on later; replaces an earlier appointment of the same key."""
        self._cancel_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_later(max(seconds, 0.0), self._due, key)

    def hurry(self) -> None:
        """Have everything that failed worked on now: what made it fail is over."""
        for key in self._failures:
            self.add(key)

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a key that is gone."""
        self._cancel_timer(key)
        self._failures.pop(key, None)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._worker())
        finally:
            for key in list(self._timers):
                self._cancel_timer(key)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer:
            timer.cancel()

    async def _worker(self) -> None:
        while True:
            key = await self._ready.get()
            self._queued.discard(key)
            self._active.add(key)
            try:
                await self._work_on(key)
            finally:
                self._active.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    async def _work_on(self, key: Key) -> None:
        self._cancel_timer(key)
        try:
            later = await self._work(key)
        except Exception:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay = min(FIRST_BACKOFF * 2 ** (failures - 1), MAX_BACKOFF)
            logger.exception("reconcile failed", extra={"key": str(key), "retry_seconds": delay})
            self.add_after(key, delay)
            return
        self._failures.pop(key, None)
        if later is not None and key not in self._timers:
            self.add_after(key, later)
