"""``event``: prompts that come to this conversation by the clock, set up and looked after by the model."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol

from pydantic import Field, TypeAdapter, ValidationError

from mikan_agent.clock import Clock
from mikan_agent.exceptions import RequestFailed, ToolError
from mikan_agent.tools.tool import HostTool, ToolArguments, ToolOutput, one_line, text_output
from mikan_api.events import EventPayload, ImmediateEvent, OneShotEvent, PeriodicEvent, describe
from mikan_api.identity import OfficeAddress
from mikan_api.schedules import NAME_PATTERN, EventEntry

PAST = timedelta(minutes=1)
"""How long ago a one-shot event may have been due: whoever writes it takes a moment."""
MAX_LISTED_TEXT = 300
_EVENT: TypeAdapter[ImmediateEvent | OneShotEvent | PeriodicEvent] = TypeAdapter(EventPayload)


class Events(Protocol):
    """The scheduled events of this conversation."""

    async def list(self) -> Sequence[EventEntry]: ...

    async def put(
        self, name: str, event: ImmediateEvent | OneShotEvent | PeriodicEvent, *, must: Literal["", "be-new", "exist"]
    ) -> EventEntry: ...

    async def delete(self, name: str) -> bool: ...


class EventArguments(ToolArguments):
    """Arguments of ``event``."""

    action: Literal["create", "list", "update", "delete"] = Field(description="What to do")
    name: str = Field(
        default="", max_length=40, description="Name of the event: a-z, 0-9 and -, like daily-report; not for list"
    )
    text: str = Field(
        default="",
        description="The prompt that you will get when it fires. Complete in itself, since you will know nothing of "
        "this conversation then, and without secrets",
    )
    at: str = Field(
        default="", max_length=64, description="For one time: ISO 8601 with offset, like 2026-03-01T09:00:00+01:00"
    )
    in_seconds: int | None = Field(
        default=None, ge=1, le=366 * 86_400, description="For one time, instead of at: so many seconds from now"
    )
    schedule: str = Field(
        default="", max_length=256, description="For again and again: cron of five fields, like 0 9 * * mon-fri"
    )
    timezone: str = Field(
        default="",
        max_length=64,
        description="IANA time zone of schedule, like Europe/Berlin: that of the people, not UTC, unless they say so",
    )


class EventTool(HostTool):
    """Creates, lists, changes and deletes this conversation's events."""

    name = "event"
    description = (
        "Set up prompts that come to you in this conversation by the clock: reminders, reports, regular checks. Your "
        "answer to one is posted here; if nothing is worth saying then, answer exactly [SILENT]. For one time give at "
        "or inSeconds, for again and again schedule and timezone. update changes what you give and keeps the rest. "
        "list shows when each fires next, and those that admins made, which you can't change."
    )
    arguments = EventArguments
    parallel = False

    def __init__(self, events: Events, office: OfficeAddress, clock: Clock) -> None:
        self._events, self._office, self._clock = events, office, clock

    def label(self, arguments: EventArguments) -> str:
        """One line for the status of this call."""
        return one_line(arguments.label or f"{arguments.action} event {arguments.name}".strip())

    async def answer(self, arguments: EventArguments) -> ToolOutput:
        """Do it."""
        try:
            match arguments.action:
                case "list":
                    return text_output(_listed(await self._events.list(), self._clock.now()))
                case "delete":
                    return await self._delete(_checked_name(arguments))
                case "create":
                    return await self._create(_checked_name(arguments), arguments)
                case "update":
                    return await self._update(_checked_name(arguments), arguments)
        except RequestFailed as error:
            raise ToolError(f"{error}.") from None

    async def _create(self, name: str, arguments: EventArguments) -> ToolOutput:
        event = self._event({}, arguments)
        await self._events.put(name, event, must="be-new")
        return text_output(f"The event {name} is set up: {_when(event)}.", _details(name, event))

    async def _update(self, name: str, arguments: EventArguments) -> ToolOutput:
        known = next((entry for entry in await self._events.list() if entry.own and entry.name == name), None)
        if known is None or known.event is None:
            raise ToolError(f"There is no event of yours named {name!r}. Look with list.")
        event = self._event(known.event, arguments)
        await self._events.put(name, event, must="exist")
        return text_output(f"The event {name} is changed: {_when(event)}.", _details(name, event))

    async def _delete(self, name: str) -> ToolOutput:
        if not await self._events.delete(name):
            raise ToolError(f"There is no event of yours named {name!r}. Look with list.")
        return text_output(f"The event {name} is deleted.")

    def _event(self, known: dict[str, Any], given: EventArguments) -> OneShotEvent | PeriodicEvent:
        """The event that is known with what is given over it.

        Raises:
            ToolError: it is none; names what is wrong.
        """
        once, again = bool(given.at) + (given.in_seconds is not None), bool(given.schedule or given.timezone)
        if once > 1 or (once and again):
            raise ToolError("Give one of at, inSeconds, or schedule with timezone.")
        if not once and not again and not known:
            raise ToolError("When? Give at or inSeconds for one time, or schedule and timezone.")
        fields = {"text": given.text or known.get("text", "")} | self._timing(known, given, bool(once), again)
        try:
            event = _EVENT.validate_python(
                fields | {"platform": self._office.platform, "conversationId": self._office.conversation_id}
            )
        except ValidationError as error:
            raise ToolError(f"Wrong arguments for event. {describe(error)}.") from None
        if isinstance(event, ImmediateEvent):
            raise ToolError("An event that is under way can't be changed.")
        if isinstance(event, OneShotEvent):
            self._check_not_past(event)
        return event

    def _timing(self, known: dict[str, Any], given: EventArguments, once: bool, again: bool) -> dict[str, Any]:
        if once:
            return {"type": "one-shot", "at": given.at or self._after(given.in_seconds or 0)}
        if again:
            same = {field: known.get(field, "") for field in ("schedule", "timezone")}
            wanted = {"schedule": given.schedule or same["schedule"], "timezone": given.timezone or same["timezone"]}
            if not all(wanted.values()):
                raise ToolError("schedule and timezone go together.")
            return {"type": "periodic"} | wanted
        return {field: known[field] for field in ("type", "at", "schedule", "timezone") if field in known}

    def _after(self, seconds: int) -> str:
        return (self._clock.now() + timedelta(seconds=seconds)).astimezone(UTC).isoformat(timespec="seconds")

    def _check_not_past(self, event: OneShotEvent) -> None:
        now = self._clock.now()
        if datetime.fromisoformat(event.at) < now - PAST:
            raise ToolError(f"{event.at} has passed; it is {now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ} now.")


def _checked_name(arguments: EventArguments) -> str:
    if not re.fullmatch(NAME_PATTERN, arguments.name):
        raise ToolError(f"{arguments.name!r} is no name for an event: 1 to 40 of a-z, 0-9 and -, like daily-report.")
    return arguments.name


def _details(name: str, event: OneShotEvent | PeriodicEvent) -> dict[str, Any]:
    return {"name": name} | event.model_dump(mode="json", by_alias=True, exclude_none=True)


def _when(event: OneShotEvent | PeriodicEvent) -> str:
    if isinstance(event, OneShotEvent):
        return f"once, at {event.at}"
    return f"by the cron schedule {event.schedule} ({event.timezone})"


def _listed(entries: Sequence[EventEntry], now: datetime) -> str:
    if not entries:
        return "There are no events for this conversation."
    lines = [line for entry in entries for line in _lines(entry)]
    return "\n".join([f"Now: {now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", *lines])


def _lines(entry: EventEntry) -> list[str]:
    event = entry.event or {}
    timing = event.get("at") or " ".join(filter(None, (event.get("schedule"), event.get("timezone"))))
    facts = [
        str(event.get("type", "unreadable")),
        str(timing),
        f"next {entry.next_fire_time:%Y-%m-%dT%H:%M:%SZ}" if entry.next_fire_time else "",
        f"last {entry.last_fire_time:%Y-%m-%dT%H:%M:%SZ}" if entry.last_fire_time else "",
        "suspended" if entry.suspended else "",
        "" if entry.own else f"made by {entry.source}, not yours to change",
    ]
    lines = [f"- {entry.name}: {', '.join(filter(None, facts))}"]
    if entry.problem and not entry.suspended:
        lines.append(f"  problem: {one_line(entry.problem)}")
    if text := event.get("text"):
        lines.append(f"  text: {one_line(str(text), MAX_LISTED_TEXT)}")
    return lines
