from datetime import UTC, datetime, timedelta

import pytest

from mikan_api.durations import MAX_DURATION, parse_duration
from mikan_api.exceptions import InvalidDuration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90s", 90), ("15m", 900), ("1h30m", 5_400), ("250ms", 0.25), ("0s", 0), ("999999999s", 999_999_999)],
)
def test_a_duration_is_the_sum_of_its_parts(written: str, seconds: float) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize("written", ["", "15", "m", "1d", "-1s", "1.5h", "1h 30m", "1234567890s"])
def test_anything_else_is_refused(written: str) -> None:
    with pytest.raises(InvalidDuration, match="is not a duration like 90s"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["999999999h", "999999999h999999999h999999999h"])
def test_a_date_can_be_reckoned_from_the_longest_that_can_be_written(written: str) -> None:
    assert parse_duration(written) == MAX_DURATION
    assert datetime(2026, 1, 1, tzinfo=UTC) + parse_duration(written) == datetime(2125, 12, 8, tzinfo=UTC)
