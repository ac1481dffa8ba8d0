"""The cap per office."""

import pytest

from mikan_api.identity import OfficeAddress
from mikan_gateway.models.exceptions import CallRefused
from mikan_gateway.models.spending import Cap, Spending
from models_service import OFFICE


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def spending(clock: Clock) -> Spending:
    return Spending(clock)


def test_an_office_at_its_cap_is_refused_and_told_the_cap(spending: Spending) -> None:
    spending.add(OFFICE, 1.5)
    spending.check(OFFICE, Cap(2, 24))
    spending.add(OFFICE, 0.5)

    with pytest.raises(CallRefused) as caught:
        spending.check(OFFICE, Cap(2, 24))

    assert (caught.value.status, caught.value.code) == (402, "office_cap_exceeded")
    assert "its cap of 2 USD in 24 h" in caught.value.message


def test_another_office_is_not_concerned(spending: Spending) -> None:
    spending.add(OFFICE, 5)

    spending.check(OfficeAddress.parse("console", "other").key, Cap(2, 24))


def test_what_is_older_than_the_window_is_forgotten(spending: Spending, clock: Clock) -> None:
    spending.add(OFFICE, 1)
    clock.now += 23 * 3600
    spending.add(OFFICE, 2)
    assert spending.spent(OFFICE, 24) == 3
    clock.now += 2 * 3600
    assert spending.spent(OFFICE, 24) == 2
    clock.now += 24 * 3600
    assert spending.spent(OFFICE, 24) == 0
    assert not spending._buckets


def test_a_day_takes_no_more_than_a_bucket_a_minute(spending: Spending, clock: Clock) -> None:
    for _ in range(600):
        spending.add(OFFICE, 0.01)
        clock.now += 1

    assert len(spending._buckets[OFFICE]) <= 11
    assert spending.spent(OFFICE, 24) == pytest.approx(6)


def test_without_a_cap_nothing_is_refused(spending: Spending) -> None:
    spending.add(OFFICE, 1e6)

    spending.check(OFFICE, None)
