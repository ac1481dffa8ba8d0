"""A scheduled event that is due, on its way from the operator to the gateway, and what became of it.

``POST /operator/v1/firings`` on the gateway's internal listener takes a `FiringBatch` and answers a `FiringAnswer`, one
result for each firing, in order. A firing is known for good by its delivery id, uid and scheduled time of the event, so
that the operator may send it as often as it likes. The request is signed as a whole (`mikan_api.tokens.sign_request`).
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field

from mikan_api.base import OpenModel
from mikan_api.events import MAX_TEXT
from mikan_api.identity import MAX_CONVERSATION_ID, OfficeAddress, Platform
from mikan_api.messaging import ConversationKind

PATH = "/operator/v1/firings"
MAX_BATCH = 250
"""Firings of one request; with the longest texts it stays below `MAX_BODY`."""
MAX_BODY = 64 * 1024 * 1024


def delivery_id(uid: str, scheduled: datetime) -> str:
    """The identity of one firing."""
    return f"{uid}/{scheduled.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


class Firing(OpenModel):
    """One event that is due."""

    delivery_id: Annotated[str, Field(min_length=1, max_length=256)]
    name: Annotated[str, Field(max_length=253)]
    """Of the object, for logs."""
    platform: Platform
    conversation_id: Annotated[str, Field(min_length=1, max_length=MAX_CONVERSATION_ID)]
    conversation_kind: ConversationKind
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    scheduled_time: AwareDatetime

    @property
    def address(self) -> OfficeAddress:
        """The office it is for.

        Raises:
            InvalidAddress: there can be none.
        """
        return OfficeAddress(self.platform, self.conversation_id)


class FiringOutcome(StrEnum):
    """What the gateway did with a firing. All but the first two mean that nothing will run."""

    QUEUED = "Queued"
    REPEATED = "Repeated"  # known already: its run is queued, under way or over
    QUEUE_FULL = "QueueFull"  # too many of this office's events wait already
    OFFICE_NOT_FOUND = "OfficeNotFound"
    OFFICE_SUSPENDED = "OfficeSuspended"
    PLATFORM_NOT_CONNECTED = "PlatformNotConnected"  # not enabled in this installation

    @property
    def accepted(self) -> bool:
        """Whether there is a run of it."""
        return self in {FiringOutcome.QUEUED, FiringOutcome.REPEATED}


class FiringResult(OpenModel):
    """What became of one firing."""

    outcome: FiringOutcome
    message: Annotated[str, Field(max_length=1024)] = ""
    """Why it was refused, for people."""


class FiringBatch(OpenModel):
    """The body of a request."""

    firings: Annotated[tuple[Firing, ...], Field(min_length=1, max_length=MAX_BATCH)]


class FiringAnswer(OpenModel):
    """The body of an answer: results in the order of the firings."""

    results: tuple[FiringResult, ...]
