"""The console API: what `mikan chat` and the gateway's console platform say to each other.

``POST /console/v1/conversations/<id>/messages`` takes a `ConsoleSend` and answers 202 with a `ConsoleAccepted` once the
message is durable; the same message id again is harmless. ``GET …/<id>`` answers a `ConsoleState`. ``GET
…/<id>/events?after=<seq>`` streams one `ConsoleEvent` as JSON a line, from the event after ``seq`` on and without end
(blank lines keep the connection alive). ``PUT …/<id>/files/<file id>`` takes the bytes of an attachment, ``GET`` gives
those of an upload. Errors are JSON: ``{"error": "…"}``. All with ``Authorization: Bearer <console token>``.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from mikan_api.base import OpenModel

CONSOLE_PREFIX = "/console/v1/conversations"
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
"""Of message, thread and file ids."""
MAX_SEND_BYTES = 512 * 1024
MAX_SEND_TEXT = 100_000
"""Characters."""
MAX_FILE_BYTES = 25 * 1024 * 1024
MAX_FILES = 10

ConsoleId = Annotated[str, Field(pattern=ID_PATTERN)]


class ConsoleFile(OpenModel):
    """A file of a message, put there before."""

    id: ConsoleId
    name: Annotated[str, Field(min_length=1, max_length=255)]
    media_type: Annotated[str, Field(max_length=255)] = "application/octet-stream"


class ConsoleSend(OpenModel):
    """A message that somebody typed."""

    message_id: ConsoleId
    user_id: Annotated[str, Field(min_length=1, max_length=128)]
    user_name: Annotated[str, Field(max_length=128)] = ""
    text: Annotated[str, Field(max_length=MAX_SEND_TEXT)] = ""
    thread: ConsoleId | None = None
    attachments: Annotated[tuple[ConsoleFile, ...], Field(max_length=MAX_FILES)] = ()


class ConsoleAccepted(OpenModel):
    """The message is durable. ``log_number`` is absent if its sender was turned away."""

    log_number: int | None = None


class ConsoleState(OpenModel):
    """Where a conversation stands."""

    last_event: int = 0


class ConsoleEvent(OpenModel):
    """Something the bot shows.

    ``post`` and ``edit`` carry a message's whole text, ``draft`` likewise one that is still growing: it has no number
    and may be missed. ``working`` false with ``reply_to`` says that all there is to that message has been shown.
    """

    seq: int = 0
    """Number in the order of events; 0 for what is not kept (drafts, and working = true)."""
    kind: Literal["post", "edit", "delete", "upload", "working", "draft"]
    message_id: str = ""
    text: str = ""
    thread: str | None = None
    reply_to: str | None = None
    working: bool | None = None
    file_id: str = ""
    file_name: str = ""
    title: str = ""
    size: int = 0
    time: datetime
