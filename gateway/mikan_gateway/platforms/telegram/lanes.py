"""Sending, one call after another in each chat, and no sooner than Telegram allows.

A call that must arrive waits out what flood control asks for, and what comes after it in its chat waits behind it. A
draft never waits: it is refused, and the next one carries its text.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from telegram.error import ChatMigrated, RetryAfter, TelegramError

from mikan_gateway.exceptions import PlatformUnavailable
from mikan_gateway.platforms.telegram.errors import seconds_to_wait, translated
from mikan_gateway.runtime.clock import Clock

T = TypeVar("T")

MAX_LANES = 10_000
"""Chats remembered; those longest unused are forgotten."""
GROUP_DRAFT_SECONDS = 3.0
"""Between two drafts in a group, which may have 20 messages a minute."""


class _Lane:
    def __init__(self, chat_id: int) -> None:
        self.chat_id = chat_id
        """Where the chat is now: a group that becomes a supergroup gets another id."""
        self.lock = asyncio.Lock()
        self.closed_until = 0.0
        self.next_draft = 0.0


class Lanes:
    """The chats that are written to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lanes: OrderedDict[int, _Lane] = OrderedDict()

    async def send(self, chat_id: int, call: Callable[[int], Awaitable[T]]) -> T:
        """Make a call that must arrive; it is given the chat's id of now.

        Raises:
            PlatformError: it did not; flood control is waited out instead.
        """
        lane = self._lane(chat_id)
        async with lane.lock:
            while True:
                await self._clock.sleep(max(0.0, lane.closed_until - self._clock.monotonic()))
                try:
                    return await self._call(lane, call)
                except RetryAfter as error:
                    lane.closed_until = self._clock.monotonic() + seconds_to_wait(error)
                except TelegramError as error:
                    raise translated(error) from error

    async def send_draft(self, chat_id: int, call: Callable[[int], Awaitable[T]]) -> T:
        """Make a call that may be left out.

        Raises:
            PlatformUnavailable: not now; ``retry_after`` says when.
            PlatformError: it failed.
        """
        lane = self._lane(chat_id)
        wait = max(lane.closed_until, lane.next_draft) - self._clock.monotonic()
        if wait > 0 or lane.lock.locked():
            raise PlatformUnavailable("this chat takes no draft now", max(wait, 0.0))
        async with lane.lock:
            if chat_id < 0:
                lane.next_draft = self._clock.monotonic() + GROUP_DRAFT_SECONDS
            return await self._attempt(lane, call)

    async def send_sign(self, chat_id: int, call: Callable[[int], Awaitable[T]]) -> T:
        """Make a call that may be left out and has no order among the others.

        Raises:
            PlatformError: it was left out, or failed.
        """
        lane = self._lane(chat_id)
        wait = lane.closed_until - self._clock.monotonic()
        if wait > 0:
            raise PlatformUnavailable("this chat takes nothing now", wait)
        return await self._attempt(lane, call)

    async def _attempt(self, lane: _Lane, call: Callable[[int], Awaitable[T]]) -> T:
        try:
            return await self._call(lane, call)
        except TelegramError as error:
            if isinstance(error, RetryAfter):
                lane.closed_until = self._clock.monotonic() + seconds_to_wait(error)
            raise translated(error) from error

    async def _call(self, lane: _Lane, call: Callable[[int], Awaitable[T]]) -> T:
        try:
            return await call(lane.chat_id)
        except ChatMigrated as error:
            lane.chat_id = error.new_chat_id
            return await call(lane.chat_id)

    def _lane(self, chat_id: int) -> _Lane:
        lane = self._lanes.setdefault(chat_id, _Lane(chat_id))
        self._lanes.move_to_end(chat_id)
        while len(self._lanes) > MAX_LANES:
            oldest = next(iter(self._lanes))
            if self._lanes[oldest].lock.locked():
                break
            del self._lanes[oldest]
        return lane
