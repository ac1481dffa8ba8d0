"""One process on a state volume: who waits, who goes on, and what is known of who was there before."""

import asyncio
import errno
import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_doubles import ManualClock
from mikan_gateway.ports import Health
from mikan_gateway.storage.state_lock import RETRY, StateLock, lock_file

HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "r+")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mikan.db.lock"


@pytest.fixture
def holder(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock."""
    file.write_text("a much longer name than the next")
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


async def blocked(lock: StateLock, clock: ManualClock) -> "asyncio.Task[None]":
    """Begin to take a lock that somebody has; returns once it waits."""
    task = asyncio.create_task(lock.take())
    async with asyncio.timeout(10):
        while not clock.waiting:  # noqa: ASYNC110  a thread looks at the file
            await asyncio.sleep(0.01)
    return task


async def test_a_second_one_waits_says_so_and_knows_who_was_there(file: Path) -> None:
    clock = ManualClock()
    first, second = StateLock(file, "one", clock), StateLock(file, "two", clock)
    await first.take()
    assert (first.held, first.predecessor, first.health()) == (True, "", Health(True))

    waiting = await blocked(second, clock)
    assert (second.held, second.health()) == (False, Health(False, "another gateway is at work on the state volume"))
    first.release()
    clock.advance(RETRY)
    await waiting

    assert (second.held, second.predecessor, second.health()) == (True, "one", Health(True))
    second.release()


async def test_a_holder_that_is_killed_holds_it_no_more(file: Path, holder: subprocess.Popen[bytes]) -> None:
    clock = ManualClock()
    lock = StateLock(file, "next", clock)
    waiting = await blocked(lock, clock)
    holder.kill()
    await asyncio.to_thread(holder.wait)
    clock.advance(RETRY)
    await waiting

    assert lock.predecessor == "a much longer name than the next"
    assert await asyncio.to_thread(file.read_text) == "next"
    lock.release()


async def test_on_a_volume_without_locks_it_goes_on_and_is_not_held(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = StateLock(file, "one", ManualClock())
    await lock.take()

    assert (lock.held, lock.predecessor, lock.health()) == (False, "", Health(True))
    lock.release()


async def test_a_volume_that_cannot_be_used_yet_is_waited_for_and_named(tmp_path: Path) -> None:
    clock = ManualClock()
    lock = StateLock(tmp_path / "mounted-later" / "mikan.db.lock", "one", clock)
    waiting = await blocked(lock, clock)
    assert lock.health() == Health(False, "storage: No such file or directory")
    (tmp_path / "mounted-later").mkdir()
    clock.advance(RETRY)
    await waiting

    assert (lock.held, lock.health()) == (True, Health(True))
    lock.release()


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite+aiosqlite:////var/lib/mikan/mikan.db", Path("/var/lib/mikan/mikan.db.lock")),
        ("sqlite://", None),
        ("postgresql+asyncpg://mikan:pw@db/mikan", None),
    ],
)
def test_it_stands_beside_an_sqlite_database_only(url: str, file: Path | None) -> None:
    assert lock_file(url) == file
