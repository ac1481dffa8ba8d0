"""The "typing…" that people see while a run works: Telegram takes it away after 5 seconds, so it is sent again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mikan_gateway.exceptions import PlatformError, PlatformUnavailable
from mikan_gateway.ports import Target
from mikan_gateway.runtime.clock import Clock

AGAIN = 4.0
"""Seconds between two."""

logger = logging.getLogger(__name__)

_Place = tuple[str, str | None]


class TypingSigns:
    """One sign for each place, for as long as any run there works."""

    def __init__(self, send: Callable[[Target], Awaitable[None]], clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self._working: dict[_Place, set[str | None]] = {}
        self._tasks: dict[_Place, asyncio.Task[None]] = {}

    def begin(self, target: Target) -> None:
        """Show that what answers ``target.reply_to`` works."""
        place = (target.conversation_id, target.thread_id)
        self._working.setdefault(place, set()).add(target.reply_to)
        if place not in self._tasks:
            self._tasks[place] = asyncio.create_task(self._repeat(target), name=f"typing-{place[0]}")

    def end(self, target: Target) -> None:
        """It no longer does."""
        place = (target.conversation_id, target.thread_id)
        working = self._working.get(place, set())
        working.discard(target.reply_to)
        if not working:
            self._working.pop(place, None)
            task = self._tasks.pop(place, None)
            if task:
                task.cancel()

    async def stop(self) -> None:
        """End all."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        self._working.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, target: Target) -> None:
        while True:
            pause = AGAIN
            try:
                await self._send(target)
            except PlatformUnavailable as error:
                pause = max(AGAIN, error.retry_after or 0.0)
            except PlatformError as error:
                logger.debug("typing is not shown", extra={"reason": str(error)})
                return
            await self._clock.sleep(pause)
