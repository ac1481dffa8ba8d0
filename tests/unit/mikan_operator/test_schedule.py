"""When events are due: zones, both days of daylight saving, missed ticks, and what no calendar has."""

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mikan_api.resources import ScheduledEventSpec, ScheduledEventStatus
from mikan_operator.observed import Meta
from mikan_operator.schedule import Due, InvalidSchedule, Missed, Over, Waits, timing

CREATED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
META = Meta("daily", "uid-1", "1", 1, CREATED, deleting=False, owner_uid="")


def spec(**fields: Any) -> ScheduledEventSpec:
    return ScheduledEventSpec.model_validate({"platform": "console", "conversationId": "c", "text": "t", **fields})


def periodic(schedule: str, timezone: str = "Europe/Berlin", **fields: Any) -> ScheduledEventSpec:
    return spec(type="periodic", schedule=schedule, timezone=timezone, **fields)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def knowing(next_fire: datetime, generation: int = 1) -> ScheduledEventStatus:
    return ScheduledEventStatus(next_fire_time=next_fire, observed_generation=generation)


def ticks(event: ScheduledEventSpec, start: str, count: int) -> list[str]:
    """The times at which it is due from a moment on, each as soon as it comes, in Berlin's time."""
    now = at(start)
    found: list[datetime] = []
    status = ScheduledEventStatus()
    meta = dataclasses.replace(META, created=now)
    while len(found) < count:
        when = timing(event, meta, status, now)
        if isinstance(when, Due):
            found.append(when.scheduled)
            assert when.following is not None
            status = knowing(when.following)
        else:
            assert isinstance(when, Waits)
            now = when.at
    return [f"{tick:%m-%d %H:%M}Z" for tick in found]


def test_a_daily_job_fires_once_on_the_day_that_lacks_its_hour() -> None:
    # 2026-03-29 in Berlin: 02:00 becomes 03:00, so 02:30 is not there and it fires at 03:00 (01:00 UTC).
    assert ticks(periodic("30 2 * * *"), "2026-03-28T00:00+01:00", 3) == [
        "03-28 01:30Z",
        "03-29 01:00Z",
        "03-30 00:30Z",
    ]


def test_a_daily_job_fires_once_on_the_day_that_has_its_hour_twice() -> None:
    # 2026-10-25 in Berlin: 03:00 becomes 02:00, so 02:30 comes twice and only the first counts (00:30 UTC).
    assert ticks(periodic("30 2 * * *"), "2026-10-24T00:00+02:00", 3) == [
        "10-24 00:30Z",
        "10-25 00:30Z",
        "10-26 01:30Z",
    ]


@pytest.mark.parametrize("day", ["2026-03-29T00:30+01:00", "2026-10-25T00:30+02:00"])
def test_an_hourly_job_fires_every_real_hour_of_both_days(day: str) -> None:
    found = ticks(periodic("0 * * * *"), day, 6)
    first = datetime.strptime(found[0], "%m-%d %H:%MZ").replace(tzinfo=UTC)
    assert found == [f"{first + timedelta(hours=hours):%m-%d %H:%M}Z" for hours in range(6)]


def test_the_zone_decides_not_the_machine() -> None:
    now = at("2026-07-01T00:00Z")
    meta = dataclasses.replace(META, created=now)
    none = ScheduledEventStatus()
    assert timing(periodic("0 9 * * *", "Asia/Tokyo"), meta, none, now) == Waits(at("2026-07-02T00:00Z"))
    assert timing(periodic("0 9 * * *", "America/New_York"), meta, none, now) == Waits(at("2026-07-01T13:00Z"))


def test_any_number_of_missed_ticks_is_one_firing_of_the_last() -> None:
    event, known = periodic("*/5 * * * *", "UTC"), knowing(at("2026-03-01T12:05Z"))
    assert timing(event, META, known, at("2026-04-09T08:03:20Z")) == Due(
        at("2026-04-09T08:00Z"), at("2026-04-09T08:05Z")
    )
    monthly = periodic("0 0 1 * *", "UTC")
    assert timing(monthly, META, knowing(at("2026-04-01T00:00Z")), at("2028-06-15T00:00Z")) == Due(
        at("2028-06-01T00:00Z"), at("2028-07-01T00:00Z")
    )


def test_the_last_missed_tick_is_never_one_from_before_the_first() -> None:
    event, known = periodic("0 * * * *", "UTC"), knowing(at("2026-03-01T13:00Z"))
    assert timing(event, META, known, at("2026-03-01T13:00:01Z")) == Due(
        at("2026-03-01T13:00Z"), at("2026-03-01T14:00Z")
    )


def test_a_restart_does_not_move_the_next_tick() -> None:
    event, known = periodic("0 9 * * *", "UTC"), knowing(at("2026-03-02T09:00Z"))
    for now in ("2026-03-01T12:00Z", "2026-03-02T08:59:59.999Z"):
        assert timing(event, META, known, at(now)) == Waits(at("2026-03-02T09:00Z"))


def test_an_event_made_while_nobody_watched_is_due_from_its_making() -> None:
    event = periodic("0 9 * * *", "UTC")
    assert timing(event, META, ScheduledEventStatus(), at("2026-03-02T10:00Z")) == Due(
        at("2026-03-02T09:00Z"), at("2026-03-03T09:00Z")
    )


def test_another_text_keeps_the_next_tick_and_another_schedule_counts_from_now() -> None:
    changed = dataclasses.replace(META, generation=2)
    known, now = knowing(at("2026-03-02T09:00Z")), at("2026-03-02T10:00Z")
    assert timing(periodic("0 9 * * *", "UTC"), changed, known, now) == Due(
        at("2026-03-02T09:00Z"), at("2026-03-03T09:00Z")
    )
    assert timing(periodic("0 8 * * *", "UTC"), changed, known, now) == Waits(at("2026-03-03T08:00Z"))


def test_another_schedule_counts_from_now_though_it_has_the_next_tick_of_the_old_one() -> None:
    changed = dataclasses.replace(META, generation=2)
    yearly, now = knowing(at("2027-01-01T09:00Z")), at("2026-03-02T10:00Z")
    assert timing(periodic("0 9 * * *", "UTC"), changed, yearly, now) == Waits(at("2026-03-03T09:00Z"))


@pytest.mark.parametrize(
    ("schedule", "first"), [("30 2 * * *", "2026-10-26T01:30Z"), ("30 2-3 * * *", "2026-10-25T02:30Z")]
)
def test_an_event_made_in_the_hour_that_comes_twice_is_not_due_at_a_time_before(schedule: str, first: str) -> None:
    made = at("2026-10-25T01:10Z")  # 02:10 in Berlin, for the second time; the first 02:30 was at 00:30 UTC
    meta = dataclasses.replace(META, created=made)
    assert timing(periodic(schedule), meta, ScheduledEventStatus(), made) == Waits(at(first))


def test_resuming_does_not_make_up_for_what_was_suspended() -> None:
    resumed = dataclasses.replace(META, generation=3)
    status = ScheduledEventStatus(observed_generation=2)
    assert timing(periodic("0 9 * * *", "UTC"), resumed, status, at("2026-03-05T10:00Z")) == Waits(
        at("2026-03-06T09:00Z")
    )


def test_a_deadline_lets_late_ticks_go() -> None:
    event, known = periodic("0 9 * * *", "UTC", startingDeadlineSeconds=60), knowing(at("2026-03-02T09:00Z"))
    following = at("2026-03-03T09:00Z")
    assert timing(event, META, known, at("2026-03-02T09:01:00Z")) == Due(at("2026-03-02T09:00Z"), following)
    assert timing(event, META, known, at("2026-03-02T09:01:01Z")) == Missed(
        at("2026-03-02T09:00Z"), following, timedelta(seconds=61)
    )


def test_one_shot_and_immediate_events_are_due_however_late() -> None:
    once, now = spec(type="one-shot", at="2026-03-02T09:00:00+02:00"), at("2026-09-01T00:00Z")
    assert timing(once, META, ScheduledEventStatus(), at("2026-03-02T06:59Z")) == Waits(at("2026-03-02T07:00Z"))
    assert timing(once, META, ScheduledEventStatus(), now) == Due(at("2026-03-02T07:00Z"), None)
    assert timing(spec(type="immediate"), META, ScheduledEventStatus(), now) == Due(CREATED, None)


def test_what_was_tried_once_is_over_until_somebody_changes_it() -> None:
    once, now = spec(type="one-shot", at="2026-03-02T09:00:00Z"), at("2026-03-02T10:00Z")
    tried = ScheduledEventStatus.model_validate(
        {"observedGeneration": 1, "lastDelivery": {"id": "uid-1/2026-03-02T09:00:00Z", "result": "QueueFull"}}
    )
    assert timing(once, META, tried, now) == Over()
    assert timing(once, dataclasses.replace(META, generation=2), tried, now) == Due(at("2026-03-02T09:00Z"), None)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (periodic("61 * * * *"), "outside 0-59"),
        (periodic("0 9 * * *", "Mars/Base"), "not an IANA time zone"),
        (periodic("0 0 30 2 *"), "0 0 30 2"),
        (periodic("every day!"), "cron needs 5"),
        (spec(type="one-shot", at="2026-02-30T09:00:00Z"), "not an ISO 8601 date"),
        (spec(type="one-shot", at="9999-12-31T23:59:59-12:00"), "out of range"),
    ],
)
def test_what_no_calendar_has_is_said(event: ScheduledEventSpec, said: str) -> None:
    with pytest.raises(InvalidSchedule, match=said):
        timing(event, META, ScheduledEventStatus(), CREATED)
