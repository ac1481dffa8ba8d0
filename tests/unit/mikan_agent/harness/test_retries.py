import random
from datetime import UTC, datetime

import pytest

from mikan_agent.backoff import Backoff
from mikan_agent.exceptions import ModelKeyRefused, ModelOverloaded, ModelUnreachable
from mikan_agent.harness.model_calls import Retries
from mikan_agent.harness.models_client import wait_asked_for


def test_waits_grow_to_a_bound_with_jitter_from_half_to_whole() -> None:
    random.seed(1)
    backoff = Backoff(1.0, 10.0)
    for attempt, step in enumerate([1, 2, 4, 8, 10, 10]):
        waits = [backoff.delay(attempt) for _ in range(200)]
        assert step / 2 <= min(waits) < step * 0.6
        assert step * 0.9 < max(waits) <= step
    assert backoff.delay(10_000) <= 10


@pytest.mark.parametrize(
    ("error", "attempt", "least"),
    [
        (ModelUnreachable("x"), 0, 0.5),
        (ModelUnreachable("x"), 2, 2.0),
        (ModelOverloaded("x", retry_after=7.0), 0, 7.0),
        (ModelOverloaded("x", retry_after=60.0), 0, 60.0),
    ],
)
def test_a_transient_failure_is_repeated_no_sooner_than_asked(
    error: ModelUnreachable | ModelOverloaded, attempt: int, least: float
) -> None:
    wait = Retries(backoff=Backoff(1.0, 10.0)).wait(error, attempt)
    assert wait is not None
    assert wait >= least


@pytest.mark.parametrize(
    ("error", "attempt"),
    [(ModelKeyRefused("x"), 0), (ModelUnreachable("x"), 6), (ModelOverloaded("x", retry_after=61.0), 0)],
)
def test_no_repeat_where_it_would_not_help(
    error: ModelKeyRefused | ModelUnreachable | ModelOverloaded, attempt: int
) -> None:
    assert Retries().wait(error, attempt) is None


def test_repeats_outlast_the_replacement_of_a_models_pod() -> None:
    waits = [Retries().wait(ModelUnreachable("x"), attempt) or 0.0 for attempt in range(6)]
    assert sum(waits) >= 15


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("7", 7.0),
        (" 1.5 ", 1.5),
        ("-3", 0.0),
        ("nan", None),
        ("inf", None),
        ("Fri, 02 Jan 2026 03:04:35 GMT", 30.0),
        ("Fri, 02 Jan 2026 04:04:35 +0100", 30.0),
        ("Fri, 02 Jan 2026 03:04:00 GMT", 0.0),
        ("Fri, 99 Jan 2026 03:04:35 GMT", None),
    ],
)
def test_a_server_asks_for_a_wait_in_seconds_or_by_a_date(told: str | None, seconds: float | None) -> None:
    assert wait_asked_for(told, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == seconds
