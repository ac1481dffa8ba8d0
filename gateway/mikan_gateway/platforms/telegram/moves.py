"""Groups that became supergroups. Telegram gives them another id; for us they stay the conversation that they were.

So their office, its memory and credentials, and the lists that name them go on to hold. A group that has no office has
nothing to keep: it begins anew under its new id.
"""

import logging
from typing import Protocol

from mikan_gateway.exceptions import StorageError

logger = logging.getLogger(__name__)


class MoveStore(Protocol):
    """Remembers moves (`mikan_gateway.storage.moves.MoveStore`)."""

    async def all(self) -> dict[str, str]: ...

    async def add(self, conversation: str, current: str) -> bool: ...


class Moves:
    """Which chat a conversation is in now."""

    def __init__(self, store: MoveStore) -> None:
        self._store = store
        self._conversations: dict[str, str] = {}
        self._chats: dict[str, int] = {}

    async def load(self) -> None:
        """Recall what earlier processes saw.

        Raises:
            StorageError: the database failed.
        """
        for conversation, current in (await self._store.all()).items():
            self._remember(conversation, int(current))

    def conversation(self, chat_id: int) -> str:
        """The conversation that a chat belongs to."""
        return self._conversations.get(str(chat_id), str(chat_id))

    def chat(self, conversation: str) -> int:
        """The chat that a conversation is in."""
        return self._chats.get(conversation, int(conversation))

    async def note(self, old: int, new: int) -> None:
        """A chat has become another one.

        Raises:
            StorageError: the database failed.
        """
        conversation = self.conversation(old)
        if self.chat(conversation) != new and await self._store.add(conversation, str(new)):
            self._remember(conversation, new)
            logger.info("a group became a supergroup", extra={"conversation": conversation, "chat": new})

    async def noticed(self, old: int, new: int) -> None:
        """The same, told by a call that was refused; one that can't be stored is told again by the next."""
        try:
            await self.note(old, new)
        except StorageError as error:
            logger.warning("a move is not remembered yet: %s", error, extra={"conversation": old})

    def _remember(self, conversation: str, chat_id: int) -> None:
        self._conversations[str(chat_id)] = conversation
        self._chats[conversation] = chat_id
