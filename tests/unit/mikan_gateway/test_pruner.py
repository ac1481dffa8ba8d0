"""What is kept and what goes, by a clock that is moved."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, text

from gateway_doubles import ManualClock, inbound, key_of
from gateway_fixtures import database_url
from gateway_world import World
from mikan_api.identity import OfficeKey
from mikan_api.responder import Respond, RunFinished, RunOutcome
from mikan_gateway.ports import Health, OwnAnswer
from mikan_gateway.pruner import EVERY, Pruner
from mikan_gateway.storage.console import ConsoleMessage, ConsoleStore
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.messages import log_entries, note_written
from mikan_gateway.storage.outgoing import OutgoingStore
from mikan_gateway.storage.spool import SpoolDirectory
from mikan_gateway.storage.tables import messages, outgoing, runs

__all__ = ["database_url"]
DAY = 86_400.0
RETENTION = 30 * DAY


@dataclass(frozen=True)
class One:
    key: OfficeKey


@dataclass
class Offices:
    """The Offices that there are."""

    keys: list[OfficeKey] = field(default_factory=lambda: [key_of()])
    ok: bool = True

    def __iter__(self) -> Iterator[One]:
        return (One(key) for key in self.keys)

    def health(self) -> Health:
        return Health(self.ok)


class PrunedWorld(World):
    """A runtime, and the pruner beside it."""

    def __init__(self, url: str, spool: Path) -> None:
        super().__init__(url)
        self.existing = Offices()
        self.spool = SpoolDirectory(spool)
        self.pruner: Pruner

    async def start(self) -> None:
        await super().start()
        self.pruner = Pruner(self.database, self.spool, self.existing, RETENTION, self.clock)

    async def answered(self, message_id: str) -> str:
        """A message that was asked, answered and written to the log."""
        run_id = await self.ask(message_id)
        link = await self.connect(f"agent-of-{message_id}")
        assert self.runs(link) == [run_id]
        await self.begin(link, run_id)
        await self.report(link, run_id, Respond(text="yes"))
        await self.finish(link, run_id)
        await OutgoingStore(self.database).begin(run_id, "answer:0", "n")
        await self.output.until_seen(run_id, "run_finished")
        self.clock.advance(1)
        await self.settle()
        self.runtime.desk.detach(link)
        return run_id

    async def written(self, number: int) -> None:
        await self.database.write(lambda connection: note_written(connection, key_of(), number))

    async def rows(self, column: object) -> list[object]:
        return await self.database.read(lambda connection: list(connection.execute(select(column)).scalars()))  # type: ignore[call-overload]


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[PrunedWorld]:
    world = PrunedWorld(database_url, tmp_path / "spool")
    await world.start()
    world.office()
    yield world
    await world.stop()


async def test_what_is_over_goes_after_the_retention_and_what_is_younger_stays(world: PrunedWorld) -> None:
    await world.answered("m1")
    await world.written(1)
    world.clock.advance(20 * DAY)
    young = await world.answered("m2")
    await world.written(2)
    world.clock.advance(11 * DAY)

    await world.pruner.prune()

    assert await world.rows(runs.c.run_id) == [young]
    assert await world.rows(outgoing.c.run_id) == [young]
    assert await world.rows(messages.c.message_id) == ["m2"]
    assert (await world.runtime.submit(inbound(message_id="m2"), True)).duplicate


async def test_what_is_not_over_stays_however_old_it_is(world: PrunedWorld) -> None:
    run_id = await world.ask("m1")
    await world.written(1)
    world.clock.advance(100 * DAY)

    await world.pruner.prune()

    assert await world.rows(runs.c.run_id) == [run_id]
    await world.restart()
    assert world.runs(await world.connect()) == [run_id]


async def test_what_has_not_been_shown_stays(world: PrunedWorld) -> None:
    world.output.gate.clear()
    run_id = await world.ask("m1")
    link = await world.connect()
    world.runs(link)
    await world.begin(link, run_id)
    await world.report(link, run_id, Respond(text="yes"), RunFinished(outcome=RunOutcome.COMPLETED))
    world.clock.advance(100 * DAY)

    await world.pruner.prune()

    assert await world.rows(runs.c.run_id) == [run_id]
    world.output.gate.set()
    assert await world.output.until_seen(run_id, "run_finished") == ["run_started", "respond", "run_finished"]


async def test_a_message_waits_for_the_offices_log_and_one_of_an_office_that_is_gone_does_not(
    world: PrunedWorld,
) -> None:
    for number in range(1, 4):
        await world.runtime.submit(inbound(message_id=f"m{number}"), False)
    await world.written(2)
    world.clock.advance(31 * DAY)

    await world.pruner.prune()
    assert await world.rows(messages.c.number) == [3]
    entries = await world.database.read(lambda connection: log_entries(connection, key_of(), 0, 10, 10**6))
    assert [entry.number for entry in entries] == [3]

    world.existing.keys = []
    world.existing.ok = False
    await world.pruner.prune()
    assert await world.rows(messages.c.number) == [3]

    world.existing.ok = True
    await world.pruner.prune()
    assert await world.rows(messages.c.number) == []
    assert (await world.runtime.submit(inbound(message_id="m9"), False)).log_number == 4


async def test_how_far_a_log_is_written_is_known_from_hellos_and_from_the_end_of_a_connection(
    world: PrunedWorld,
) -> None:
    for number in range(1, 4):
        await world.runtime.submit(inbound(message_id=f"m{number}"), False)
    link = await world.connect()
    world.runtime.desk.written(link, 2)
    world.runtime.desk.detach(link)
    await world.settle()
    world.clock.advance(31 * DAY)

    await world.pruner.prune()

    assert await world.rows(messages.c.number) == [3]


async def test_own_answers_go_once_they_have_been_shown(world: PrunedWorld) -> None:
    await world.runtime.answer(OwnAnswer(inbound(message_id="m1"), "shown"))
    await world.output.until(2)
    world.clock.advance(1)
    await world.settle()
    world.output.gate.clear()
    await world.runtime.answer(OwnAnswer(inbound(message_id="m2"), "waits"))
    (shown, waits) = await world.rows(runs.c.run_id)
    store = OutgoingStore(world.database)
    await store.begin(shown, "answer:0", "n1")
    await store.begin(waits, "answer:0", "n2")
    world.clock.advance(31 * DAY)

    await world.pruner.prune()

    assert await world.rows(runs.c.run_id) == [waits]
    assert await world.rows(outgoing.c.nonce) == ["n2"]


async def test_more_than_one_batch_goes_with_a_pause_between(world: PrunedWorld) -> None:
    for number in range(450):
        await world.runtime.submit(inbound(message_id=f"m{number}"), False)
    await world.written(450)
    world.clock.advance(31 * DAY)

    pruning = asyncio.create_task(world.pruner.prune())
    while not pruning.done():
        await world.database.write(lambda _: None)
        world.clock.advance(0.25)
        await asyncio.sleep(0)

    assert pruning.result() == 450
    assert await world.rows(messages.c.number) == []


async def test_the_console_forgets_too(world: PrunedWorld) -> None:
    store = ConsoleStore(world.database)
    for day in (0, 20):
        time = datetime.fromtimestamp(world.clock.now() + day * DAY, UTC)
        message = ConsoleMessage(conversation="C1", message_id=f"d{day}", author="mikan", time=time)
        await store.append(message, f"n{day}")
    world.clock.advance(31 * DAY)

    await world.pruner.prune()

    kept = await ConsoleStore(world.database).after("C1", 0)
    assert [message.message_id for message in kept] == ["d20"]


async def test_files_that_wait_for_an_office_that_is_gone_go(world: PrunedWorld, tmp_path: Path) -> None:
    for conversation in ("C1", "C2", "C3"):
        path = world.spool.attachment(key_of(conversation), "a1")
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
        old = world.clock.now() - (1 if conversation == "C3" else 31 * DAY)
        os.utime(path.parent, (old, old))

    await world.pruner.prune()

    found = {path.parent.name for path in (tmp_path / "spool").glob("attachments/*/*")}
    assert found == {key_of("C1"), key_of("C3")}


async def test_attachments_that_nobody_asked_for_go_once_the_office_has_its_log(world: PrunedWorld) -> None:
    await world.runtime.submit(inbound(message_id="m1"), False)
    path = world.spool.attachment(key_of(), "a1")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    os.utime(path, (1, 1))

    await world.pruner.prune()
    assert path.is_file()

    await world.written(1)
    await world.pruner.prune()
    assert not path.exists()


async def test_a_round_comes_about_every_hour_and_then_the_next(world: PrunedWorld) -> None:
    clock = ManualClock()
    rounds: list[float] = []

    class Counted(Pruner):
        async def prune(self) -> int:
            rounds.append(clock.now())
            return await super().prune()

    pruner = Counted(world.database, world.spool, world.existing, RETENTION, clock)
    began = clock.now()
    task = asyncio.create_task(pruner.run())
    await asyncio.sleep(0)
    for number in (1, 2):
        clock.advance(EVERY * 1.1)
        while len(rounds) < number or not clock.waiting:
            await world.settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert [time - began for time in rounds] == pytest.approx([1.1 * EVERY, 2.2 * EVERY])


async def test_what_is_old_is_found_along_an_index(tmp_path: Path) -> None:
    database = await Database.open(f"sqlite+aiosqlite:///{tmp_path}/mikan.db")

    def plan(connection: Connection) -> str:
        query = "EXPLAIN QUERY PLAN SELECT run_id FROM runs WHERE state = 'finished' ORDER BY position LIMIT 200"
        return " ".join(str(row.detail) for row in connection.execute(text(query)))

    assert "USING INDEX runs_unfinished" in await database.read(plan)
    await database.close()
