"""A clock that moves only when everybody waits for it."""

import asyncio
import heapq
from datetime import UTC, datetime, timedelta


class VirtualClock:
    """Sleepers wake in order of their time; nobody really waits."""

    def __init__(self) -> None:
        self._now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0
        self.slept: list[float] = []
        """Every wait that was asked for, in order."""

    def now(self) -> datetime:
        """A day in 2026, plus what has passed."""
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) + timedelta(seconds=self._now)

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait for `advance`."""
        self.slept.append(seconds)
        waiter = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._now + seconds, self._count, waiter))
        await waiter

    async def advance(self, seconds: float) -> None:
        """Let time pass, and everybody do what is due."""
        end = self._now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._now, _, waiter = heapq.heappop(self._sleepers)
            if not waiter.done():
                waiter.set_result(None)
            await settle()
        self._now = end


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(50):
        await asyncio.sleep(0)
