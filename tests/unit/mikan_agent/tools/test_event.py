"""The ``event`` tool: what it asks for, and what it says of arguments that make no event."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import pytest

from mikan_agent.exceptions import RequestFailed, ToolError
from mikan_agent.messages import TextContent
from mikan_agent.tools.event import EventArguments, EventTool
from mikan_agent.tools.tool import ToolOutput, parse_arguments
from mikan_api.events import ImmediateEvent, OneShotEvent, PeriodicEvent
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.schedules import EventEntry

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OFFICE = OfficeAddress(Platform.CONSOLE, "C1")
COMMON = {"platform": "console", "conversationId": "C1"}
DAILY = COMMON | {"type": "periodic", "text": "Report", "schedule": "0 9 * * *", "timezone": "Europe/Berlin"}


class Noon:
    """A clock that stands."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")


class PlayedEvents:
    """Events that a test looks at."""

    def __init__(self, *entries: EventEntry) -> None:
        self.entries = list(entries)
        self.put_events: list[tuple[str, dict[str, object], str]] = []
        self.refusal = ""

    async def list(self) -> Sequence[EventEntry]:
        return self.entries

    async def put(
        self, name: str, event: ImmediateEvent | OneShotEvent | PeriodicEvent, *, must: Literal["", "be-new", "exist"]
    ) -> EventEntry:
        if self.refusal:
            raise RequestFailed(self.refusal)
        self.put_events.append((name, event.to_json_dict(), must))
        return EventEntry(name=name, own=True, source="agent", event=None)

    async def delete(self, name: str) -> bool:
        return any(entry.name == name and entry.own for entry in self.entries)


def own(name: str = "daily", event: dict[str, Any] | None = None, **fields: Any) -> EventEntry:
    return EventEntry.model_validate({"name": name, "own": True, "source": "agent", "event": event or DAILY, **fields})


def given(tool: EventTool, **arguments: Any) -> EventArguments:
    checked = parse_arguments(tool, arguments)
    assert isinstance(checked, EventArguments)
    return checked


async def call(events: PlayedEvents, **arguments: Any) -> str:
    tool = EventTool(events, OFFICE, Noon())
    output: ToolOutput = await tool.answer(given(tool, **arguments))
    [content] = output.content
    assert isinstance(content, TextContent)
    return content.text


async def test_a_periodic_event_is_set_up() -> None:
    events = PlayedEvents()
    said = await call(
        events, action="create", name="daily", text="Report", schedule="0 9 * * *", timezone="Europe/Berlin"
    )
    assert events.put_events == [("daily", DAILY, "be-new")]
    assert said == "The event daily is set up: by the cron schedule 0 9 * * * (Europe/Berlin)."


async def test_seconds_from_now_are_a_time() -> None:
    events = PlayedEvents()
    said = await call(events, action="create", name="tea", text="Tea!", inSeconds=90)
    assert events.put_events == [
        ("tea", COMMON | {"type": "one-shot", "text": "Tea!", "at": "2026-03-01T12:01:30+00:00"}, "be-new")
    ]
    assert said == "The event tea is set up: once, at 2026-03-01T12:01:30+00:00."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "daily", "text": "x"}, "When? Give at or inSeconds"),
        ({"name": "Daily Report", "text": "x", "inSeconds": 5}, "'Daily Report' is no name for an event"),
        ({"text": "x", "inSeconds": 5}, "'' is no name for an event"),
        ({"name": "d", "inSeconds": 5}, "one-shot.text: String should have at least 1 character"),
        ({"name": "d", "text": "x", "at": "2026-03-02T09:00:00"}, "needs a time and 'Z' or an offset"),
        ({"name": "d", "text": "x", "at": "tomorrow"}, "'tomorrow' is not an ISO 8601 date and time"),
        ({"name": "d", "text": "x", "at": "2026-03-01T11:58:00Z"}, "has passed; it is 2026-03-01T12:00:00Z now"),
        ({"name": "d", "text": "x", "schedule": "0 9 * * *"}, "schedule and timezone go together"),
        ({"name": "d", "text": "x", "schedule": "9 o'clock", "timezone": "UTC"}, "cron needs 5"),
        ({"name": "d", "text": "x", "schedule": "0 9 * * *", "timezone": "CET/Berlin"}, "not an IANA time zone"),
        ({"name": "d", "text": "x", "at": "2026-03-02T09:00:00Z", "inSeconds": 5}, "Give one of at, inSeconds"),
        ({"name": "d", "text": "x", "inSeconds": 5, "timezone": "UTC"}, "Give one of at, inSeconds"),
    ],
)
async def test_what_makes_no_event_is_told(arguments: dict[str, Any], said: str) -> None:
    events = PlayedEvents()
    with pytest.raises(ToolError) as refused:
        await call(events, action="create", **arguments)
    assert said in str(refused.value)
    assert events.put_events == []


async def test_an_update_keeps_what_is_not_given() -> None:
    events = PlayedEvents(
        own(), own("tea", COMMON | {"type": "one-shot", "text": "Tea!", "at": "2026-03-01T13:00:00Z"})
    )
    await call(events, action="update", name="daily", text="A longer report")
    await call(events, action="update", name="daily", schedule="30 9 * * *")
    await call(events, action="update", name="daily", inSeconds=60)
    await call(events, action="update", name="tea", text="Coffee!")
    assert events.put_events == [
        ("daily", DAILY | {"text": "A longer report"}, "exist"),
        ("daily", DAILY | {"schedule": "30 9 * * *"}, "exist"),
        ("daily", COMMON | {"type": "one-shot", "text": "Report", "at": "2026-03-01T12:01:00+00:00"}, "exist"),
        ("tea", COMMON | {"type": "one-shot", "text": "Coffee!", "at": "2026-03-01T13:00:00Z"}, "exist"),
    ]


@pytest.mark.parametrize("action", ["update", "delete"])
async def test_somebody_elses_event_is_none_of_ones_own(action: str) -> None:
    events = PlayedEvents(own("backup").model_copy(update={"own": False, "source": "admin"}))
    with pytest.raises(ToolError, match="There is no event of yours named 'backup'"):
        await call(events, action=action, name="backup", text="x")


async def test_deleting_is_said() -> None:
    assert await call(PlayedEvents(own()), action="delete", name="daily") == "The event daily is deleted."


async def test_a_list_tells_when_each_fires_and_what_is_wrong() -> None:
    admins = own("backup", DAILY | {"text": "Check\nit"}).model_copy(update={"own": False, "source": "admin"})
    broken = EventEntry(name="x", own=False, source="file", event=None, problem="schedule: wrong")
    daily = own(nextFireTime="2026-03-02T08:00:00Z", lastFireTime="2026-03-01T08:00:00Z", problem="QueueFull: 5 wait")
    said = await call(PlayedEvents(daily, admins, broken), action="list")
    assert said.splitlines() == [
        "Now: 2026-03-01T12:00:00Z",
        "- daily: periodic, 0 9 * * * Europe/Berlin, next 2026-03-02T08:00:00Z, last 2026-03-01T08:00:00Z",
        "  problem: QueueFull: 5 wait",
        "  text: Report",
        "- backup: periodic, 0 9 * * * Europe/Berlin, made by admin, not yours to change",
        "  text: Check it",
        "- x: unreadable, made by file, not yours to change",
        "  problem: schedule: wrong",
    ]
    assert await call(PlayedEvents(), action="list") == "There are no events for this conversation."


async def test_a_refusal_of_the_gateway_is_told() -> None:
    events = PlayedEvents()
    events.refusal = "there is an event named 'tea' already"
    with pytest.raises(ToolError, match="there is an event named 'tea' already"):
        await call(events, action="create", name="tea", text="x", inSeconds=5)


def test_the_status_line_says_what_is_done() -> None:
    tool = EventTool(PlayedEvents(), OFFICE, Noon())
    assert tool.label(given(tool, action="create", name="tea")) == "create event tea"
    assert tool.label(given(tool, action="list")) == "list event"
