"""What a console conversation shows, as a stream that can be resumed: stored events, and drafts that are not kept."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from mikan_api.console import ConsoleEvent
from mikan_gateway.storage.console import ConsoleMessage, ConsoleStore

KEEPALIVE_SECONDS = 15.0
PAGE = 500


class Feed:
    """Every console conversation's events."""

    def __init__(self, store: ConsoleStore, keepalive: float = KEEPALIVE_SECONDS) -> None:
        self._store = store
        self._keepalive = keepalive
        self._last: dict[str, int] = {}
        self._live: defaultdict[str, dict[str, ConsoleEvent]] = defaultdict(dict)
        self._news: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._closed = False

    async def append(self, message: ConsoleMessage, nonce: str | None = None) -> ConsoleMessage:
        """Store an event; the one of then if the nonce was used before. It ends the draft of its message."""
        stored = await self._store.append(message, nonce)
        conversation = message.conversation
        self._last[conversation] = max(stored.seq, self._last.get(conversation, 0))
        self._live[conversation].pop(message.message_id, None)
        if message.kind == "working":
            self._live[conversation].pop(_working_id(message.reply_to), None)
        if not self._live[conversation]:
            del self._live[conversation]
        self._announce(conversation)
        return stored

    def draft(self, conversation: str, message_id: str, text: str) -> None:
        """Show a text that is still growing to whoever is looking."""
        event = ConsoleEvent(kind="draft", message_id=message_id, text=text, time=datetime.now(UTC))
        self._live[conversation][message_id] = event
        self._announce(conversation)

    def working(self, conversation: str, reply_to: str | None) -> None:
        """Show to whoever is looking that a message is being worked on."""
        event = ConsoleEvent(kind="working", working=True, reply_to=reply_to, time=datetime.now(UTC))
        self._live[conversation][_working_id(reply_to)] = event
        self._announce(conversation)

    async def last(self, conversation: str) -> int:
        """The number of the newest stored event; 0 if there is none."""
        return await self._store.last(conversation)

    async def events(self, conversation: str, after: int) -> AsyncIterator[ConsoleEvent | None]:
        """Events that follow ``after``, without end until `close`; ``None`` now and then when nothing happens."""
        seen: dict[str, ConsoleEvent] = {}
        while not self._closed:
            news = self._news[conversation]
            fresh = False
            if self._last.get(conversation, after + 1) > after:
                page = await self._store.after(conversation, after, PAGE)
                for message in page:
                    after, fresh = message.seq, True
                    yield event_of(message)
                if len(page) < PAGE:
                    self._last.setdefault(conversation, after)
            live = self._live.get(conversation, {})
            for key, event in list(live.items()):
                if seen.get(key) is not event:
                    fresh = True
                    yield event
            seen = dict(self._live.get(conversation, {}))
            if not fresh and not await self._wait(news):
                yield None

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for conversation in list(self._news):
            self._announce(conversation)

    async def _wait(self, news: asyncio.Event) -> bool:
        try:
            async with asyncio.timeout(self._keepalive):
                await news.wait()
        except TimeoutError:
            return False
        return True

    def _announce(self, conversation: str) -> None:
        # Who waits holds the event that it took before it looked, so nothing is missed.
        self._news.pop(conversation, asyncio.Event()).set()


def event_of(message: ConsoleMessage) -> ConsoleEvent:
    """A stored event as clients see it."""
    return ConsoleEvent(
        seq=message.seq,
        kind=message.kind,
        message_id=message.message_id,
        text=message.text,
        thread=message.thread,
        reply_to=message.reply_to,
        working=message.working,
        file_id=message.file_id,
        file_name=message.file_name,
        title=message.title,
        size=message.size,
        time=message.time,
    )


def _working_id(reply_to: str | None) -> str:
    return f"working {reply_to}"
