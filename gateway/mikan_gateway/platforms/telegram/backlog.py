"""What has been read and is not durable yet: in order within a chat, chats beside each other.

Telegram confirms updates from the oldest on only. So the first that is not durable holds the offset, and all from there
on come again with each poll; those that are known by then are left out. That way a chat whose messages take long (a
large file, an office that can't be made now) keeps the others waiting for no longer than a moment.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from telegram import Update

from mikan_gateway.ports import InboundMessage
from mikan_gateway.runtime.clock import Clock

_Entry = tuple[Sequence[int], InboundMessage]


class Backlog:
    """Passes messages on, and knows up to which update that has been done."""

    def __init__(self, pass_on: Callable[[InboundMessage], Awaitable[None]], clock: Clock) -> None:
        """``pass_on`` returns once a message is durable, or will never be."""
        self._pass_on, self._clock = pass_on, clock
        self._undone: dict[int, None] = {}
        """Updates, in order."""
        self._seen: set[int] = set()
        """Updates that may come again."""
        self._next: int | None = None
        self._chats: dict[str, deque[_Entry]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def busy(self) -> bool:
        """Whether something is being passed on."""
        return bool(self._tasks)

    @property
    def offset(self) -> int | None:
        """The first update that is not done with; ``None`` before there was any."""
        return next(iter(self._undone), self._next)

    def ask(self) -> int | None:
        """The offset of a poll that is made now."""
        if not self._undone:
            # It confirms all of them. What gets done while it is under way, it may still bring again.
            self._seen.clear()
        return self.offset

    def fresh(self, updates: Iterable[Update]) -> list[Update]:
        """Those that are new. They count as undone."""
        new = [update for update in updates if update.update_id not in self._seen]
        for update in new:
            self._undone[update.update_id] = None
            self._seen.add(update.update_id)
            self._next = update.update_id + 1
        return new

    def add(self, updates: Sequence[Update], message: InboundMessage | None) -> None:
        """Pass on what updates amount to, after what came before it in its chat; ``None``: nothing."""
        ids = [update.update_id for update in updates]
        if message is None:
            self._done(ids)
            return
        chat = message.event.conversation_id
        self._chats.setdefault(chat, deque()).append((ids, message))
        if chat not in self._tasks:
            self._tasks[chat] = asyncio.create_task(self._work(chat), name=f"telegram-{chat}")

    async def settled(self, patience: float) -> None:
        """Wait until all is done, but not for long."""
        if self._tasks:
            working = asyncio.create_task(_until_done(list(self._tasks.values())))
            timer = asyncio.create_task(self._clock.sleep(patience))
            await asyncio.wait({working, timer}, return_when=asyncio.FIRST_COMPLETED)
            working.cancel()
            timer.cancel()

    async def done_with(self, chat: str) -> None:
        """Wait until what is known of a chat is done."""
        if chat in self._tasks:
            await asyncio.wait({self._tasks[chat]})

    async def close(self, patience: float) -> None:
        """Let what is under way come to its end for a while; the rest comes again in the next process."""
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, chat: str) -> None:
        waiting = self._chats[chat]
        try:
            while waiting:
                ids, message = waiting[0]
                await self._pass_on(message)
                waiting.popleft()
                self._done(ids)
        finally:
            del self._tasks[chat], self._chats[chat]

    def _done(self, ids: Sequence[int]) -> None:
        for update_id in ids:
            self._undone.pop(update_id, None)


async def _until_done(tasks: "Sequence[asyncio.Task[None]]") -> None:
    await asyncio.wait(tasks)
