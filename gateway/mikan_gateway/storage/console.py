"""What the console platform shows: an ordered feed per conversation that survives restarts and can be waited for."""

import asyncio
from collections import OrderedDict, defaultdict, deque
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection, bindparam, func, insert, select

from mikan_api.base import OpenModel
from mikan_api.kill_points import Step
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.tables import console_messages


class ConsoleMessage(OpenModel):
    """One thing that happened in a console conversation; an edit or a deletion names the message it is about."""

    conversation: str
    message_id: str
    kind: Literal["post", "edit", "delete", "upload", "working"] = "post"
    author: str
    from_bot: bool = False
    text: str = ""
    file_name: str = ""
    """Of an upload."""
    file_id: str = ""
    title: str = ""
    size: int = 0
    """Bytes of an upload."""
    thread: str | None = None
    reply_to: str | None = None
    """The message that this answers."""
    working: bool | None = None
    time: datetime
    seq: int = 0
    """Place in the order of all console messages; 0 before it is stored."""


RECENT = 8
"""Messages of one conversation that are kept in memory; whoever watches has seen older ones."""
RECENT_CONVERSATIONS = 128


class ConsoleStore:
    """The feed of every console conversation."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent: OrderedDict[str, deque[ConsoleMessage]] = OrderedDict()
        """The newest messages of a conversation, without a gap among them."""
        self._news: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def append(self, message: ConsoleMessage, nonce: str | None = None) -> ConsoleMessage:
        """Store a message and return it with its ``seq``; one with a nonce used before returns the one of then."""

        def work(connection: Connection) -> tuple[ConsoleMessage, bool]:
            earlier = None if nonce is None else _by_nonce(connection, message.conversation, nonce)
            return (earlier, False) if earlier else (_insert(connection, message, nonce), True)

        stored, _ = await self._database.write(work, self._announce, Step.CONSOLE_COMMIT)
        return stored

    async def after(self, conversation: str, seq: int, limit: int = 500) -> list[ConsoleMessage]:
        """At most ``limit`` messages that follow ``seq``, in order."""
        recent = self._recent.get(conversation)
        if recent and recent[0].seq <= seq:
            return [message for message in recent if message.seq > seq][:limit]
        wanted = {"in_conversation": conversation, "from_seq": seq, "at_most": limit}

        def work(connection: Connection) -> list[ConsoleMessage]:
            rows = connection.execute(_AFTER, wanted)
            return [_message(seq, body) for seq, body in rows]

        return await self._database.read(work)

    async def last(self, conversation: str) -> int:
        """The place of a conversation's newest message; 0 if there is none."""
        query = select(func.max(console_messages.c.seq)).where(console_messages.c.conversation == conversation)
        return await self._database.read(lambda connection: connection.execute(query).scalar() or 0)

    async def wait_after(self, conversation: str, seq: int, limit: int = 500) -> list[ConsoleMessage]:
        """As `after`, but waits until there is something."""
        while True:
            news = self._news[conversation]
            found = await self.after(conversation, seq, limit)
            if found:
                return found
            await news.wait()

    def _announce(self, stored: tuple[ConsoleMessage, bool]) -> None:
        message, is_new = stored
        if is_new:
            self._remember(message)
        # Who waits holds the event that it took before it looked, so nothing is missed.
        self._news.pop(message.conversation, asyncio.Event()).set()

    def _remember(self, message: ConsoleMessage) -> None:
        self._recent.setdefault(message.conversation, deque(maxlen=RECENT)).append(message)
        self._recent.move_to_end(message.conversation)
        while len(self._recent) > RECENT_CONVERSATIONS:
            self._recent.popitem(last=False)


# Built once: building costs more than running them.
_IN_CONVERSATION = console_messages.c.conversation == bindparam("in_conversation")
_AFTER = (
    select(console_messages.c.seq, console_messages.c.body)
    .where(_IN_CONVERSATION, console_messages.c.seq > bindparam("from_seq"))
    .order_by(console_messages.c.seq)
    .limit(bindparam("at_most"))
)
_BY_NONCE = select(console_messages.c.seq, console_messages.c.body).where(
    _IN_CONVERSATION, console_messages.c.nonce == bindparam("used")
)
_APPEND = insert(console_messages).returning(console_messages.c.seq)


def _by_nonce(connection: Connection, conversation: str, nonce: str) -> ConsoleMessage | None:
    row = connection.execute(_BY_NONCE, {"in_conversation": conversation, "used": nonce}).one_or_none()
    return None if row is None else _message(row.seq, row.body)


def _insert(connection: Connection, message: ConsoleMessage, nonce: str | None) -> ConsoleMessage:
    values = {
        "conversation": message.conversation,
        "message_id": message.message_id,
        "kind": message.kind,
        "nonce": nonce,
        "body": message.model_dump_json(by_alias=True, exclude={"seq"}),
    }
    seq = connection.execute(_APPEND, values).scalar_one()
    return message.model_copy(update={"seq": seq})


def _message(seq: int, body: str) -> ConsoleMessage:
    return ConsoleMessage.model_validate_json(body).model_copy(update={"seq": seq})
