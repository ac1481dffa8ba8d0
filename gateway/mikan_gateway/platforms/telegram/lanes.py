"""Sending, one call after another in each chat, and no sooner than Telegram allows.

The limits are those of the Bot FAQ ("My bot is hitting limits"): kept ahead of time, so that flood control (429) has
nothing to say as a rule. Where it does, a call that must arrive waits out what it asks for, and what comes after it in
its chat waits behind it. Drafts and signs never wait and leave room for what must arrive: they are refused, and the
next draft carries the text of this one.
"""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

from telegram.error import ChatMigrated, RetryAfter, TelegramError

from mikan_gateway.exceptions import PlatformUnavailable
from mikan_gateway.platforms.telegram.allowance import Allowance
from mikan_gateway.platforms.telegram.errors import seconds_to_wait, translated
from mikan_gateway.runtime.clock import Clock

T = TypeVar("T")

OVERALL_PER_SECOND, CHAT_PER_SECOND, GROUP_PER_MINUTE = 30, 1, 20
"""Messages that a bot may send to all chats, to one, and to one group."""
OVERALL_SPARE, GROUP_SPARE = 10, 10
"""How many of them drafts and signs leave for what must arrive."""
GROUP_DRAFT_SECONDS = 3.0
"""Between two drafts in a group."""
LATER = 1.0
"""Seconds until a draft is tried again, where nobody knows better."""
MAX_LANES = 10_000
"""Chats remembered; those longest unused are forgotten."""
SEVERAL, TOGETHER = 3, 1.0
"""So many chats refused within so many seconds: then it is not about any one of them."""


class _Lane:
    def __init__(self, chat_id: int, clock: Clock) -> None:
        self.chat_id = chat_id
        """Where the chat is now: a group that becomes a supergroup gets another id."""
        self.lock = asyncio.Lock()
        self.closed_until = 0.0
        self.next_draft = 0.0
        self.second = Allowance(CHAT_PER_SECOND, 1.0, clock)
        self.minute = Allowance(GROUP_PER_MINUTE, 60.0, clock) if chat_id < 0 else None

    @property
    def allowances(self) -> tuple[Allowance, ...]:
        return (self.second,) if self.minute is None else (self.second, self.minute)


class Lanes:
    """The chats that are written to, by the id that they had first."""

    def __init__(
        self,
        clock: Clock,
        where: Callable[[int], int] = lambda chat_id: chat_id,
        moved: Callable[[int, int], Awaitable[None]] | None = None,
    ) -> None:
        """Prepare.

        Args:
            clock: to wait by.
            where: the id that a chat has now.
            moved: told of a chat that has another id since.
        """
        self._clock, self._where, self._moved = clock, where, moved
        self._lanes: OrderedDict[int, _Lane] = OrderedDict()
        self._overall = Allowance(OVERALL_PER_SECOND, 1.0, clock)
        self._closed_until = 0.0
        self._refused: deque[tuple[float, int, float]] = deque()
        """When which chat was refused, and until when; of the last moment."""
        self._under_way: set[asyncio.Future[None]] = set()
        self._closing = False

    async def close(self, patience: float) -> None:
        """Make no further call, and let those under way end for a while: one that is cut off may have arrived."""
        self._closing = True
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=patience)

    async def send(self, chat_id: int, call: Callable[[int], Awaitable[T]], message: bool = True) -> T:
        """Make a call that must arrive; it is given the chat's id of now.

        Args:
            chat_id: the chat.
            call: the call.
            message: whether it shows something new; taking something away is not limited.

        Raises:
            PlatformError: it did not; flood control is waited out instead.
        """
        lane = self._lane(chat_id)
        allowances = (*lane.allowances, self._overall) if message else ()
        async with lane.lock:
            while True:
                await self._clock.sleep(self._closed(lane))
                async with AsyncExitStack() as places:
                    for allowance in allowances:
                        await places.enter_async_context(allowance)
                    if self._closed(lane) > 0:
                        continue
                    try:
                        return await self._call(lane, call)
                    except RetryAfter as error:
                        self._close(lane, error)
                    except TelegramError as error:
                        raise translated(error) from error

    async def send_draft(self, chat_id: int, call: Callable[[int], Awaitable[T]]) -> T:
        """Make a call that may be left out.

        Raises:
            PlatformUnavailable: not now; ``retry_after`` says when.
            PlatformError: it failed.
        """
        lane = self._lane(chat_id)
        wait = max(
            self._closed(lane),
            lane.next_draft - self._clock.monotonic(),
            lane.second.wait(),
            lane.minute.wait(GROUP_SPARE) if lane.minute else 0.0,
            self._overall.wait(OVERALL_SPARE),
        )
        if wait > 0 or lane.lock.locked() or self._overall.contended:
            raise PlatformUnavailable("this chat takes no draft now", LATER if math.isinf(wait) else max(wait, 0.0))
        async with lane.lock, AsyncExitStack() as places:
            for allowance in (*lane.allowances, self._overall):
                await places.enter_async_context(allowance)
            if chat_id < 0:
                lane.next_draft = self._clock.monotonic() + GROUP_DRAFT_SECONDS
            return await self._attempt(lane, call)

    async def send_sign(self, chat_id: int, call: Callable[[int], Awaitable[T]]) -> T:
        """Make a call that may be left out, shows no message and has no order among the others.

        Raises:
            PlatformError: it was left out, or failed.
        """
        lane = self._lane(chat_id)
        wait = max(self._closed(lane), self._overall.wait(OVERALL_SPARE))
        if wait > 0 or self._overall.contended:
            raise PlatformUnavailable("this chat takes nothing now", LATER if math.isinf(wait) else max(wait, 0.0))
        async with self._overall:
            return await self._attempt(lane, call)

    async def _attempt(self, lane: _Lane, call: Callable[[int], Awaitable[T]]) -> T:
        try:
            return await self._call(lane, call)
        except TelegramError as error:
            if isinstance(error, RetryAfter):
                self._close(lane, error)
            raise translated(error) from error

    async def _call(self, lane: _Lane, call: Callable[[int], Awaitable[T]]) -> T:
        if self._closing:
            raise PlatformUnavailable("this process is ending")
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.add(ended)
        try:
            return await self._made(lane, call)
        finally:
            self._under_way.discard(ended)
            ended.set_result(None)

    async def _made(self, lane: _Lane, call: Callable[[int], Awaitable[T]]) -> T:
        try:
            return await call(lane.chat_id)
        except ChatMigrated as error:
            old, lane.chat_id = lane.chat_id, error.new_chat_id
            if self._moved is not None:
                await self._moved(old, lane.chat_id)
            return await call(lane.chat_id)

    def _closed(self, lane: _Lane) -> float:
        """Seconds for which Telegram wants to hear nothing."""
        return max(0.0, max(lane.closed_until, self._closed_until) - self._clock.monotonic())

    def _close(self, lane: _Lane, error: RetryAfter) -> None:
        """Do as told. Telegram does not say whether it is about a chat or the bot; several chats at once tell."""
        now = self._clock.monotonic()
        lane.closed_until = now + seconds_to_wait(error)
        self._refused.append((now, lane.chat_id, lane.closed_until))
        while self._refused[0][0] < now - TOGETHER:
            self._refused.popleft()
        if len({chat for _, chat, _ in self._refused}) >= SEVERAL:
            # The shortest: should they have been refused each for itself after all, nobody waits for another's sake.
            self._closed_until = max(self._closed_until, min(until for _, _, until in self._refused))

    def _lane(self, chat_id: int) -> _Lane:
        lane = self._lanes.get(chat_id)
        if lane is None:
            lane = self._lanes[chat_id] = _Lane(self._where(chat_id), self._clock)
        self._lanes.move_to_end(chat_id)
        while len(self._lanes) > MAX_LANES:
            oldest = next(iter(self._lanes))
            if self._lanes[oldest].lock.locked():
                break
            del self._lanes[oldest]
        return lane
