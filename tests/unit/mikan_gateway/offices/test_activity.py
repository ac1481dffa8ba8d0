from datetime import UTC, datetime, timedelta

import pytest

from gateway_cluster import AWAY, PlayedApi, manifest
from gateway_doubles import ManualClock, key_of
from gateway_edges import FixedSettings, turns
from mikan_gateway.exceptions import ClusterNotFound
from mikan_gateway.offices.activity import RETRIES, ActivityWriter
from mikan_gateway.offices.directory import OfficeDirectory

KEY = key_of("C1")
START = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)


class Time:
    """A wall clock and the pauses of the writer, both moved by a test."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.began = self.clock.monotonic()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.clock.monotonic() - self.began)

    async def pass_(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await turns()


class Notes:
    """A writer over a played API."""

    def __init__(self, status: dict[str, object] | None = None) -> None:
        self.api, self.time = PlayedApi(), Time()
        settings = FixedSettings()
        self.directory = OfficeDirectory(self.api, "offices", settings)
        self.directory.observe(manifest("C1", status=status or {}))
        self.writer = ActivityWriter(self.api, self.directory, settings, self.time.now, self.time.clock)

    async def touch(self, running: int) -> None:
        self.writer.touch(KEY, running)
        await turns()

    @property
    def written(self) -> list[tuple[object, object]]:
        return [(status["lastActivityTime"], status["runningSessions"]) for _, status in self.api.statuses]


@pytest.fixture
def notes() -> Notes:
    return Notes()


async def test_the_first_edge_is_written_at_once(notes: Notes) -> None:
    await notes.touch(1)

    assert notes.api.statuses == [(KEY, {"lastActivityTime": "2026-01-02T03:00:00Z", "runningSessions": 1})]


async def test_edges_of_quick_turns_are_joined(notes: Notes) -> None:
    for running in (1, 0, 1, 0, 1, 0):
        await notes.touch(running)
    await notes.time.pass_(2)
    await notes.time.pass_(60)

    assert notes.written == [("2026-01-02T03:00:00Z", 1), ("2026-01-02T03:00:00Z", 0)]


async def test_activity_without_an_edge_is_written_every_quarter_of_the_idle_timeout(notes: Notes) -> None:
    await notes.touch(1)
    for _ in range(30):
        await notes.time.pass_(30)
        await notes.touch(1)

    # 15 min idle timeout, 15 min of use: at 0, 3:45 rounded up to the next touch, and so on.
    assert notes.written == [
        ("2026-01-02T03:00:00Z", 1),
        ("2026-01-02T03:04:00Z", 1),
        ("2026-01-02T03:08:00Z", 1),
        ("2026-01-02T03:12:00Z", 1),
    ]


async def test_nothing_going_on_writes_nothing(notes: Notes) -> None:
    await notes.touch(1)
    await notes.touch(0)
    await notes.time.pass_(2)
    before = len(notes.api.statuses)
    await notes.time.pass_(100_000)

    assert len(notes.api.statuses) == before == 2


async def test_what_a_status_says_already_is_not_written_again() -> None:
    notes = Notes({"lastActivityTime": "2026-01-02T02:59:00Z", "runningSessions": 1})
    await notes.touch(1)

    assert notes.written == []


async def test_a_write_that_fails_is_tried_again_with_what_holds_by_then(notes: Notes) -> None:
    notes.api.failures = [AWAY, AWAY]
    await notes.touch(1)
    await notes.touch(2)
    await notes.time.pass_(0.5)
    await notes.time.pass_(1)

    assert notes.written == [("2026-01-02T03:00:00Z", 2)]


async def test_a_write_that_fails_is_tried_again_at_once_when_the_api_server_answers_again(notes: Notes) -> None:
    notes.api.failures = [AWAY] * 5
    await notes.touch(1)
    for pause in RETRIES[:4]:
        await notes.time.pass_(pause)
    assert notes.api.requests == ["status"] * 5
    notes.api.put(manifest("C1"))
    notes.directory.start()
    await notes.directory.wait_synced()
    await turns()

    assert notes.written == [("2026-01-02T03:00:00Z", 1)]
    await notes.directory.stop()


async def test_an_office_that_is_gone_is_left_alone(notes: Notes) -> None:
    notes.api.failures = [ClusterNotFound("gone")]
    await notes.touch(1)
    await notes.time.pass_(100)

    assert notes.api.requests == ["status"]


async def test_an_office_made_anew_is_told_again(notes: Notes) -> None:
    await notes.touch(1)
    notes.directory.observe(manifest("C1", 2, uid="uid-2"))
    await notes.touch(1)

    assert notes.written == [("2026-01-02T03:00:00Z", 1), ("2026-01-02T03:00:00Z", 1)]
