"""The time of a prompt changes only when that does no harm."""

from datetime import UTC, datetime, timedelta

from mikan_agent.harness.steady_time import SteadyTime

START = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def told(*minutes: float) -> list[float]:
    time = SteadyTime()
    return [(time.tell(START + timedelta(minutes=m)) - START) / timedelta(minutes=1) for m in minutes]


def test_messages_that_follow_each_other_closely_hear_the_same_time() -> None:
    assert told(0, 1, 4.5, 9) == [0, 0, 0, 0]


def test_after_a_pause_the_time_is_right() -> None:
    assert told(0, 5.1, 6, 60) == [0, 5.1, 5.1, 60]


def test_the_time_is_never_wrong_by_more_than_a_quarter_of_an_hour() -> None:
    assert told(*range(0, 34, 4)) == [0, 0, 0, 0, 16, 16, 16, 16, 32]


def test_a_clock_that_was_set_back_is_believed() -> None:
    assert told(10, 8) == [10, 8]
