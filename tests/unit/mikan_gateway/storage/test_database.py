import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, text, update

from mikan_api.exceptions import ConfigError
from mikan_gateway.exceptions import StorageError, StorageFull, StorageUnavailable
from mikan_gateway.ports import Health
from mikan_gateway.storage.backends import Backend, CommitUnknown, Work, open_backend
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.schema import MIGRATIONS
from mikan_gateway.storage.tables import messages, offices, outgoing, schema_version


def _add(slot: str):
    def work(connection: Connection) -> str:
        connection.execute(insert(outgoing).values(run_id="r", slot=slot, nonce="n"))
        return slot

    return work


def _slots(connection: Connection) -> list[str]:
    return list(connection.execute(select(outgoing.c.slot).order_by(outgoing.c.slot)).scalars())


async def test_what_was_written_is_there_after_opening_again(database_url: str) -> None:
    first = await Database.open(database_url)
    await first.write(_add("a"))
    await first.close()
    second = await Database.open(database_url)
    assert await second.read(_slots) == ["a"]
    await second.close()


async def test_concurrent_writes_are_told_in_the_order_they_were_asked_for(database: Database) -> None:
    told: list[str] = []
    names = [f"{n:03}" for n in range(250)]
    results = await asyncio.gather(*(database.write(_add(name), told.append) for name in names))
    assert results == names
    assert told == names
    assert await database.read(_slots) == names


async def test_a_failing_write_fails_alone(database: Database) -> None:
    def broken(_: Connection) -> None:
        raise ValueError("mine")

    results = await asyncio.gather(
        database.write(_add("a")), database.write(broken), database.write(_add("b")), return_exceptions=True
    )
    assert [results[0], repr(results[1]), results[2]] == ["a", "ValueError('mine')", "b"]
    assert await database.read(_slots) == ["a", "b"]


async def test_a_statement_that_fails_undoes_its_unit_of_work(database: Database) -> None:
    def half(connection: Connection) -> None:
        _add("x")(connection)
        _add("x")(connection)

    with pytest.raises(StorageUnavailable):
        await database.write(half)
    await database.write(_add("a"))
    assert await database.read(_slots) == ["a"]


async def test_memory_follows_the_commit_though_the_caller_was_cancelled(database: Database) -> None:
    told: list[str] = []
    write = asyncio.create_task(database.write(_add("a"), told.append))
    await asyncio.sleep(0)
    write.cancel()
    await asyncio.gather(write, return_exceptions=True)
    await database.write(_add("b"), told.append)
    assert told == ["a", "b"]


async def test_closing_commits_what_was_asked_for(database_url: str) -> None:
    first = await Database.open(database_url)
    writes = [asyncio.create_task(first.write(_add(name))) for name in ("a", "b")]
    await asyncio.sleep(0)
    await first.close()
    assert await asyncio.gather(*writes) == ["a", "b"]
    with pytest.raises(StorageError):
        await first.write(_add("c"))
    second = await Database.open(database_url)
    assert await second.read(_slots) == ["a", "b"]
    await second.close()


async def test_a_database_of_the_first_schema_gets_what_is_new_and_its_messages_count_as_stored_now(
    database_url: str,
) -> None:
    def as_it_was(connection: Connection) -> None:
        values = {"office": "o", "number": 1, "app": "", "team": "", "message_id": "m", "from_bot": False, "body": "{}"}
        connection.execute(insert(messages).values(values))
        connection.execute(update(schema_version).values(version=1))
        connection.execute(text("ALTER TABLE messages DROP COLUMN stored_at"))
        connection.execute(text("ALTER TABLE offices DROP COLUMN written_number"))

    first = await Database.open(database_url)
    await first.write(as_it_was)
    await first.close()
    began = time.time()
    second = await Database.open(database_url)

    assert await second.read(lambda connection: connection.execute(select(offices.c.written_number)).all()) == []
    stored = await second.read(lambda connection: connection.execute(select(messages.c.stored_at)).scalar_one())
    assert began <= stored <= time.time()
    assert await second.read(lambda c: c.execute(select(schema_version.c.version)).scalar()) == len(MIGRATIONS)
    await second.close()


async def test_a_newer_schema_is_refused(database_url: str) -> None:
    first = await Database.open(database_url)
    await first.write(lambda connection: connection.execute(update(schema_version).values(version=99)) and None)
    await first.close()
    with pytest.raises(ConfigError, match="schema version 99"):
        await Database.open(database_url)


async def test_an_unknown_kind_of_database_is_refused() -> None:
    with pytest.raises(ConfigError, match="'mysql' is neither"):
        await Database.open("mysql://localhost/x")


async def test_an_unreachable_database_says_so_without_its_password() -> None:
    with pytest.raises(StorageUnavailable) as caught:
        await Database.open("postgresql+asyncpg://user:s3cret@127.0.0.1:1/x")
    assert "s3cret" not in str(caught.value)


async def test_a_full_disk_is_told_apart_and_writing_goes_on_once_there_is_room(tmp_path: Path) -> None:
    database = await Database.open(f"sqlite+aiosqlite:///{tmp_path}/mikan.db")

    def fill(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count=1")  # raised to what is in use: no page more
        connection.execute(insert(outgoing).values(run_id="r", slot="big", nonce="x" * 1_000_000))

    with pytest.raises(StorageFull, match="enlarge it"):
        await database.write(fill)
    assert not database.health().ok
    await database.write(_add("a"))
    assert database.health().ok
    assert await database.read(_slots) == ["a"]
    await database.close()


async def test_a_failure_is_logged_once_and_ends_by_itself_though_nobody_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Fragile:
        """A backend whose disk is full for a while."""

        def __init__(self, inner: Backend) -> None:
            self.inner, self.full, self.tries = inner, False, 0
            self.read, self.close = inner.read, inner.close

        async def write(self, work: Work[Any]) -> Any:
            self.tries += 1
            if self.full:
                raise StorageFull("full")
            return await self.inner.write(work)

    database = await Database.open(f"sqlite+aiosqlite:///{tmp_path}/mikan.db", probe_every=0.01)
    fragile = Fragile(database._backend)
    database._backend, fragile.full = fragile, True
    with pytest.raises(StorageFull):
        await database.write(_add("a"))
    async with asyncio.timeout(5):
        while fragile.tries < 3:  # noqa: ASYNC110  the writer tells nobody of a probe
            await asyncio.sleep(0)
        assert database.health() == Health(False, "full")
        fragile.full = False
        while not database.health().ok:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await database.close()
    logged = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "mikan_gateway.storage.database"]
    assert logged[0] == ("ERROR", "the database fails")
    assert [level for level, _ in logged].count("ERROR") == 1


class Undecided:
    """A backend of whose next commit nobody knows for a while whether it was made."""

    def __init__(self, inner: Backend, made: bool) -> None:
        self.inner, self.made, self.known = inner, made, asyncio.Event()
        self.asked = 0
        self.read, self.close = inner.read, inner.close
        self._next = True

    async def write(self, work: Work[Any]) -> Any:
        if not self._next:
            return await self.inner.write(work)
        self._next = False
        result = await self.inner.write(work) if self.made else [None]
        raise CommitUnknown("cut", result, self.outcome)

    async def outcome(self) -> bool:
        self.asked += 1
        if not self.known.is_set():
            raise StorageUnavailable("cut")
        return self.made


@pytest.mark.parametrize("made", [True, False])
async def test_what_became_of_a_commit_is_found_out_before_anything_else_is_written(
    database_url: str, made: bool
) -> None:
    database = await Database.open(database_url, probe_every=0.01)
    database._backend = undecided = Undecided(database._backend, made)
    told: list[str] = []
    writes = [asyncio.create_task(database.write(_add(name), told.append)) for name in ("a", "b")]
    async with asyncio.timeout(5):
        while undecided.asked < 3:  # noqa: ASYNC110  the writer tells nobody
            await asyncio.sleep(0)
    with pytest.raises(StorageError, match="cut"):
        await database.write(_add("c"))
    assert (told, database.health()) == ([], Health(False, "cut"))

    undecided.known.set()
    assert await asyncio.gather(*writes) == ["a", "b"]
    assert told == ["a", "b"]
    assert await database.read(_slots) == ["a", "b"]
    assert await database.write(_add("c")) == "c"
    assert database.health().ok
    await database.close()


async def test_closing_does_not_wait_for_what_nobody_knows(database_url: str) -> None:
    database = await Database.open(database_url, probe_every=0.01)
    database._backend = Undecided(database._backend, made=True)
    write = asyncio.create_task(database.write(_add("a")))
    await asyncio.sleep(0.02)
    await database.close()
    with pytest.raises(StorageError, match="cut"):
        await write


async def test_every_commit_of_sqlite_is_synced(tmp_path: Path) -> None:
    database = await Database.open(f"sqlite+aiosqlite:///{tmp_path}/mikan.db")

    def pragmas(connection: Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    assert await database.write(pragmas) == ["wal", 2, 1, 5000]
    await database.close()


async def test_a_file_that_another_process_writes_to_is_unavailable_for_that_long(tmp_path: Path) -> None:
    backend = open_backend(f"sqlite:///{tmp_path}/mikan.db")
    await backend.write(lambda connection: connection.exec_driver_sql("PRAGMA busy_timeout=0").close())
    with closing(sqlite3.connect(tmp_path / "mikan.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageUnavailable, match="SQLITE_BUSY"):
            await backend.write(lambda connection: None)
    assert await backend.write(lambda connection: connection.exec_driver_sql("SELECT 1").scalar()) == 1
    await backend.close()
