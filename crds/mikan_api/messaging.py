"""What a message is, whatever platform it came from (the seeds' "Platform intake and response interface").

An adapter makes a `ConversationEvent` from a native event; from then on nobody sees an SDK object.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from mikan_api.base import OpenModel
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.session_keys import SessionKey


class ConversationKind(StrEnum):
    """Whether a conversation has one human or many."""

    DIRECT = "direct"
    SHARED = "shared"


class TrustModel(StrEnum):
    """Who can write to a conversation: a property of the surface, never of a platform's name."""

    MEMBERSHIP = "membership"
    OPEN_TRIGGER = "open-trigger"


class Author(OpenModel):
    """Who wrote a message."""

    id: str
    user_name: str = ""
    display_name: str = ""
    is_bot: bool = False


class Attachment(OpenModel):
    """A file of a message. Bytes wait in the gateway's spool until the agent pulls them by ``id``."""

    id: str
    name: str
    """Sanitized file name, unique in the office: ``<timestamp>_<name>``."""
    original_name: str = ""
    media_type: str = "application/octet-stream"
    size: int = 0
    """Bytes."""
    error: str | None = None
    """Why the file could not be fetched; then there are no bytes."""


class ConversationMessage(OpenModel):
    """One message, normalized. ``text`` has platform mentions turned into ``<@userName>`` and the bot's own removed."""

    id: str
    """The platform's message id (the seeds' ``ts``)."""
    thread_id: str | None = None
    """The thread's root message id (``thread_ts``)."""
    author: Author
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    time: datetime
    session_key: SessionKey | None = None
    """In the log: the session that it belongs to; of what we posted, the one that it was posted for."""


class ConversationEvent(OpenModel):
    """A message on its way to an office."""

    platform: Platform
    conversation_id: str
    conversation_kind: ConversationKind
    session_key: SessionKey
    message: ConversationMessage
    vault_conversation_id: str | None = None
    """An alternate identity used for credential routing only."""

    @property
    def address(self) -> OfficeAddress:
        """The office this event is for."""
        return OfficeAddress(self.platform, self.conversation_id)


class MessagingInfo(OpenModel):
    """What a harness may know of the platform behind a conversation."""

    platform: Platform
    trust_model: TrustModel
    bot_name: str = "mikan"
    display_name: str = ""
    """The conversation's name as people see it."""
    max_text_length: Annotated[int, Field(gt=0)] = 4_000
    can_stream: bool = False
    can_react: bool = False
    can_upload: bool = False
    users: tuple[Author, ...] = ()
    """People known here, for ``<@userName>`` mentions."""


class LogEntry(OpenModel):
    """One numbered line of an office's platform log; ``number`` counts up from 1 without a gap."""

    number: Annotated[int, Field(ge=1)]
    message: ConversationMessage
    from_bot: bool = False
    """Posted by ourselves."""
