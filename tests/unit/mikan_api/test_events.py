"""Scheduled event payloads: exact forms."""

import json

import pytest

from mikan_api.events import ImmediateEvent, OneShotEvent, PeriodicEvent, build_event_payload, parse_event_payload
from mikan_api.exceptions import InvalidEvent

BASE = {"conversationId": "C1", "text": "hello"}


def parse(**fields: object) -> object:
    return parse_event_payload(json.dumps({**BASE, **fields}))


def test_the_three_types() -> None:
    assert isinstance(parse(type="immediate"), ImmediateEvent)
    assert isinstance(parse(type="one-shot", at="2026-03-01T12:00:00Z"), OneShotEvent)
    assert isinstance(parse(type="periodic", schedule="0 9 * * mon-fri", timezone="Europe/Berlin"), PeriodicEvent)


def test_the_legacy_channel_id_is_read_and_never_written() -> None:
    event = parse_event_payload('{"type": "immediate", "channelId": "C9", "text": "x"}')

    assert event.conversation_id == "C9"
    assert json.loads(build_event_payload(event)) == {"type": "immediate", "conversationId": "C9", "text": "x"}


@pytest.mark.parametrize(
    "at",
    [
        "2026-03-01T12:00:00",
        "2026-03-01",
        "2026-02-30T12:00:00Z",
        "2026-03-01T25:00:00Z",
        "2026-03-01 12:00:00Z",
        "soon",
    ],
)
def test_instants_that_are_refused(at: str) -> None:
    with pytest.raises(InvalidEvent, match="at"):
        parse(type="one-shot", at=at)


@pytest.mark.parametrize("at", ["2026-03-01T12:00:00Z", "2026-03-01T12:00:00+05:30", "2028-02-29T00:00:00-01:00"])
def test_instants_that_are_accepted(at: str) -> None:
    assert parse(type="one-shot", at=at).at == at  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "schedule",
    [
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "@daily",
    ],
)
def test_schedules_that_are_refused(schedule: str) -> None:
    with pytest.raises(InvalidEvent, match="schedule"):
        parse(type="periodic", schedule=schedule, timezone="UTC")


@pytest.mark.parametrize("schedule", ["*/15 0-6,12 1 jan-mar sun", "0 9 * * 7", "0,30 * * * *"])
def test_schedules_that_are_accepted(schedule: str) -> None:
    assert parse(type="periodic", schedule=schedule, timezone="UTC").schedule == schedule  # type: ignore[attr-defined]


@pytest.mark.parametrize("zone", ["Mars/Base", "", "../etc/passwd"])
def test_zones_that_are_refused(zone: str) -> None:
    with pytest.raises(InvalidEvent, match="timezone"):
        parse(type="periodic", schedule="0 9 * * *", timezone=zone)


@pytest.mark.parametrize(
    "document", ["", "[]", "null", "{", '{"type": "hourly"}', '{"type": "immediate", "text": "x"}']
)
def test_documents_that_are_refused(document: str) -> None:
    with pytest.raises(InvalidEvent):
        parse_event_payload(document)
