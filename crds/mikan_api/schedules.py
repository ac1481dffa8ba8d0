"""What an agent asks of its office's ScheduledEvents, over `mikan_api.wire.Request`: ``events.list|put|delete``.

An office's agent has events of its own (source ``agent``), and each extension has (source ``extension``); either sees
and changes its own by a short name. Everybody else's of the same conversation are shown to the agent, and that is all.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from mikan_api.base import ApiModel, OpenModel
from mikan_api.events import EventPayload

NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
EventName = Annotated[str, Field(max_length=40, pattern=NAME_PATTERN)]
Owner = Annotated[str, Field(max_length=63, pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$")]
"""An extension's slug; empty for the agent itself."""
MAX_EVENTS = 100
"""Events that the agent and the extensions of one office may have together."""


class ListEvents(ApiModel):
    """Params of ``events.list``."""

    owner: Owner = ""


class PutEvent(ApiModel):
    """Params of ``events.put``: makes an event, or changes the one of this name."""

    name: EventName
    owner: Owner = ""
    event: EventPayload
    must: Literal["", "be-new", "exist"] = ""


class DeleteEvent(ApiModel):
    """Params of ``events.delete``."""

    name: EventName
    owner: Owner = ""


class EventEntry(OpenModel):
    """One event, as it is told."""

    name: str
    """The short name of one's own; the object's name of somebody else's."""
    own: bool
    source: str
    event: dict[str, Any] | None
    """Its payload (`mikan_api.events`); ``None`` if it can't be read."""
    suspended: bool = False
    next_fire_time: datetime | None = None
    last_fire_time: datetime | None = None
    problem: str = ""
    """Why it does not fire, or why the last firing came to nothing."""


class EventList(OpenModel):
    """Result of ``events.list``."""

    events: tuple[EventEntry, ...]
