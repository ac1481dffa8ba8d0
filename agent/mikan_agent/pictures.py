"""Pictures: what is one, how large it may be, and how many of a conversation a model is shown.

The agent is small and a picture large: it is held as base64 in the session's transcript and sent with every call.
"""

import base64
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.messages import (
    Content,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ToolResultMessage,
    UserMessage,
)
from mikan_agent.records.exceptions import StorageError
from mikan_api.messaging import Attachment

MAX_PICTURE = 3_932_160
"""Bytes of one file: 5 MiB as base64, which is the least that large providers take."""
MAX_ATTACHED = 4 * 1024 * 1024
"""Bytes of all pictures that are shown with one message."""
KEPT = 6 * 1024 * 1024
"""Characters of base64 in a conversation, beyond which older pictures are taken out."""
NOT_SHOWN = TextContent(text="[A picture was here. It cannot be shown to you.]")
TAKEN_OUT = TextContent(text="[A picture was here. Read its file again if you need it.]")

_MAGIC = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})


def picture_type(head: bytes) -> str | None:
    """The media type of a picture that models read, told from its first 12 bytes; ``None``: it is none."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def image(data: bytes, kind: str) -> ImageContent:
    """A picture as a message holds it."""
    return ImageContent(data=base64.b64encode(data).decode(), mime_type=kind)


def attached_pictures(directory: ConfinedDirectory, attachments: Iterable[Attachment]) -> dict[str, ImageContent]:
    """The pictures among attachments, by attachment id, as far as they are small enough; blocks.

    What a file is, is told from its content: names and types are whatever somebody sent.
    """
    shown: dict[str, ImageContent] = {}
    room = MAX_ATTACHED
    for attachment in attachments:
        suffix = PurePosixPath(attachment.name.lower()).suffix
        if attachment.error is not None or not (attachment.media_type.startswith("image/") or suffix in _SUFFIXES):
            continue
        try:
            data = directory.read(attachment.name, min(MAX_PICTURE, room))
        except StorageError:  # too large, or something else by now; the message names its path all the same
            continue
        if kind := picture_type(data):
            shown[attachment.id] = image(data, kind)
            room -= len(data)
    return shown


class PictureRoom:
    """Takes pictures out of messages that are given newest first, once there are too many."""

    def __init__(self, room: int = KEPT, instead: TextContent = TAKEN_OUT) -> None:
        self._room, self._instead = room, instead

    def fitted(self, message: Message) -> Message:
        """The message with as many of its pictures as there is room for; those taken out are named."""
        parts = _parts(message)
        if not any(isinstance(part, ImageContent) for part in parts):
            return message
        return message.model_copy(update={"content": [self._fitted(part) for part in parts]})

    def _fitted(self, part: Content) -> Content:
        if not isinstance(part, ImageContent):
            return part
        self._room -= len(part.data)
        return part if self._room >= 0 else self._instead


def pictures_in(message: Message) -> int:
    """Characters of base64 of a message's pictures."""
    return sum(len(part.data) for part in _parts(message) if isinstance(part, ImageContent))


def _parts(message: Message) -> Sequence[Content]:
    """The content of a message that may hold pictures."""
    if not isinstance(message, UserMessage | ToolResultMessage | CustomMessage) or isinstance(message.content, str):
        return ()
    return message.content
