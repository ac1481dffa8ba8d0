"""Time, injected so that tests need not wait for it."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Where the runtime gets its time from."""

    def now(self) -> float:
        """Seconds since the epoch, to be stored."""
        ...

    def monotonic(self) -> float:
        """Seconds, to measure with."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's time."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def sleep_unless(clock: Clock, seconds: float, event: asyncio.Event) -> None:
    """Sleep, but no longer than until something happens."""
    tasks = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.create_task(event.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def backoff(attempt: int, first: float, longest: float) -> float:
    """Seconds to wait before try number ``attempt`` (from 1) after the first."""
    return float(min(longest, first * 2 ** min(attempt - 1, 20)))
