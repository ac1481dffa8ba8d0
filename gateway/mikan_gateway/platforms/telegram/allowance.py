"""How often the other side may be called, kept so that it never counts more than it allows."""

import asyncio
import math
from collections import deque
from types import TracebackType

from mikan_gateway.runtime.clock import Clock

_ROUNDING = 1e-9


class Allowance:
    """At most ``limit`` calls in any ``seconds``; ``async with`` waits its turn for a place.

    A call has its place from before it is made until ``seconds`` after its end. The other side counts when a call
    arrives, which is some time in between: so it never counts more, however long calls take on their way.
    """

    def __init__(self, limit: int, seconds: float, clock: Clock) -> None:
        self._limit, self._seconds, self._clock = limit, seconds, clock
        self._under_way = 0
        self._ended: deque[float] = deque()
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()

    async def __aenter__(self) -> None:
        async with self._turn:
            while (wait := self.wait()) > 0:
                if math.isinf(wait):
                    self._news.clear()
                    await self._news.wait()
                else:
                    await self._clock.sleep(wait)
            self._under_way += 1

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._under_way -= 1
        self._ended.append(self._clock.monotonic())
        self._news.set()

    def wait(self, spare: int = 0) -> float:
        """Seconds until a call may be made that leaves ``spare`` places; ``inf`` where calls under way decide that."""
        now = self._clock.monotonic()
        while self._ended and self._ended[0] + self._seconds <= now + _ROUNDING:
            self._ended.popleft()
        missing = self._under_way + len(self._ended) + spare + 1 - self._limit
        if missing <= 0:
            return 0.0
        return self._ended[missing - 1] + self._seconds - now if missing <= len(self._ended) else math.inf

    @property
    def contended(self) -> bool:
        """Whether somebody waits for a place."""
        return self._turn.locked()
