"""Scheduled event payloads: what ``events/*.json`` holds and what a ScheduledEvent's spec says, parsed in one place.

immediate, one-shot (``at``: ISO 8601 with an offset) and periodic (five-field cron in an IANA zone), as in the seeds'
"Event-file interface". ``channelId`` is a legacy alias that is read and never written.
"""

import json
from datetime import datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from mikan_api.base import ApiModel
from mikan_api.exceptions import InvalidEvent
from mikan_api.identity import Platform
from mikan_api.messaging import ConversationKind

MAX_TEXT = 32_768
_CRON_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON_NAMES: tuple[dict[str, int], ...] = (
    {},
    {},
    {},
    {name: number for number, name in enumerate(_MONTHS, 1)},
    {name: number for number, name in enumerate(_DAYS)},
)


def check_instant(value: str) -> str:
    """Accept an ISO 8601 instant with ``Z`` or an offset and real calendar values."""
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{value!r} is not an ISO 8601 date and time") from None
    if parsed.tzinfo is None or "T" not in value:
        raise ValueError(f"{value!r} needs a time and 'Z' or an offset like +02:00")
    return value


def check_zone(value: str) -> str:
    """Accept the name of an IANA time zone."""
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{value!r} is not an IANA time zone") from None
    return value


def _cron_number(text: str, field: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() else _CRON_NAMES[field].get(text.lower(), -1)
    low, high = _CRON_RANGES[field]
    if not low <= number <= high:
        raise ValueError(f"{text!r} is outside {low}-{high}")
    return number


def _check_cron_part(part: str, field: int) -> None:
    span, slash, step = part.partition("/")
    if slash and not (step.isascii() and step.isdigit() and int(step) > 0):
        raise ValueError(f"step {step!r} is not a positive number")
    if span == "*":
        return
    first, dash, last = span.partition("-")
    low = _cron_number(first, field)
    if dash and _cron_number(last, field) < low:
        raise ValueError(f"range {span!r} runs backwards")


def check_schedule(value: str) -> str:
    """Accept a five-field cron expression (``*``, lists, ranges, steps, month and day names)."""
    fields = value.split()
    if len(fields) != len(_CRON_RANGES):
        raise ValueError(f"{value!r} has {len(fields)} fields, cron needs 5")
    for index, field in enumerate(fields):
        for part in field.split(","):
            _check_cron_part(part, index)
    return value


class _Common(ApiModel):
    conversation_id: Annotated[str, Field(min_length=1, max_length=512)]
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    platform: Platform | None = None
    conversation_kind: ConversationKind | None = None
    user_id: Annotated[str, Field(max_length=256)] | None = None


class ImmediateEvent(_Common):
    """Fires as soon as it is seen."""

    type: Literal["immediate"] = "immediate"


class OneShotEvent(_Common):
    """Fires once, at an instant; late and once if that passed while nobody watched."""

    type: Literal["one-shot"] = "one-shot"
    at: Annotated[str, AfterValidator(check_instant)]


class PeriodicEvent(_Common):
    """Fires by the clock of a time zone."""

    type: Literal["periodic"] = "periodic"
    schedule: Annotated[str, AfterValidator(check_schedule)]
    timezone: Annotated[str, AfterValidator(check_zone)]


EventPayload = Annotated[ImmediateEvent | OneShotEvent | PeriodicEvent, Field(discriminator="type")]
_ADAPTER: TypeAdapter[ImmediateEvent | OneShotEvent | PeriodicEvent] = TypeAdapter(EventPayload)


def parse_event_payload(document: str | bytes) -> ImmediateEvent | OneShotEvent | PeriodicEvent:
    """Read a payload; the legacy ``channelId`` stands for ``conversationId``.

    Raises:
        InvalidEvent: not JSON, or not a payload; the message names each field.
    """
    try:
        raw = json.loads(document)
    except ValueError:
        raise InvalidEvent("event is not JSON") from None
    if isinstance(raw, dict) and "channelId" in raw:
        legacy = raw.pop("channelId")
        raw.setdefault("conversationId", legacy)
    try:
        return _ADAPTER.validate_python(raw)
    except ValidationError as error:
        raise InvalidEvent(describe(error)) from None


def build_event_payload(event: ImmediateEvent | OneShotEvent | PeriodicEvent) -> str:
    """Write a payload: canonical field names, one JSON object."""
    return json.dumps(event.to_json_dict(), ensure_ascii=False)


def describe(error: ValidationError) -> str:
    """One line per fault, with the field's path and no input value (it may be a secret)."""
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'document'}: {e['msg']}" for e in error.errors())
