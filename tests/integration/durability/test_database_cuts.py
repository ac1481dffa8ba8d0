"""What the gateway believes of Postgres is what is in it, wherever a connection to it breaks."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Connection, insert, select

from mikan_gateway.exceptions import StorageError
from mikan_gateway.storage.backends import COMMAND_SECONDS, CONNECT_SECONDS
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.tables import outgoing
from postgres import postgres_server
from toxiproxy import Link, toxiproxy


@dataclass
class Distant:
    """A database behind a link, and what its user was told."""

    database: Database
    direct: Database
    link: Link
    told: list[str] = field(default_factory=list)
    """What was committed, as far as memory knows."""
    failed: set[str] = field(default_factory=set)

    async def write(self, slot: str) -> bool:
        """Write a row; whether that worked."""

        def work(connection: Connection) -> str:
            connection.execute(insert(outgoing).values(run_id="r", slot=slot, nonce="n"))
            return slot

        try:
            await self.database.write(work, self.told.append)
        except StorageError:
            self.failed.add(slot)
            return False
        return True

    async def until_it_works(self, slot: str) -> None:
        """Write until it works."""
        for attempt in range(200):
            if await self.write(f"{slot}-{attempt}"):
                return
            await asyncio.sleep(0.05)
        raise AssertionError("it does not work again")

    async def rows(self) -> set[str]:
        return set(await self.direct.read(lambda c: list(c.execute(select(outgoing.c.slot)).scalars())))


@pytest.fixture
async def distant() -> AsyncIterator[Distant]:
    url = postgres_server().create_database()
    port = urlsplit(url).port
    assert port
    direct = await Database.open(url)
    async with toxiproxy() as server:
        link = await server.link("postgres", port)
        database = await Database.open(url.replace(f":{port}/", f":{link.port}/"), probe_every=0.05)
        yield Distant(database, direct, link)
        await link.heal()
        await database.close()
    await direct.close()


async def test_a_commit_whose_answer_was_cut_off_counts_as_what_became_of_it(distant: Distant) -> None:
    async def many(limit: int) -> None:
        await asyncio.gather(*(distant.write(f"{limit}-{number}") for number in range(3)))
        for number in range(3, 12):
            if not await distant.write(f"{limit}-{number}"):
                return

    for limit in (*range(1, 700, 31), *range(700, 2600, 83)):
        await distant.link.poison("limit_data", bytes=limit)
        writing = asyncio.create_task(many(limit))
        await asyncio.wait({writing}, timeout=0.3)
        await distant.link.heal()
        await writing
        await distant.until_it_works(f"{limit}-after")

    assert await distant.rows() == set(distant.told)
    assert max(Counter(distant.told).values()) == 1
    assert distant.failed & set(distant.told) == set()


async def test_a_connection_that_is_silent_is_given_up(distant: Distant) -> None:
    assert await distant.write("before")
    await distant.link.poison("timeout", timeout=0)
    began = time.monotonic()
    assert not await distant.write("lost")
    assert time.monotonic() - began <= COMMAND_SECONDS + 5
    assert not distant.database.health().ok
    began = time.monotonic()
    assert not await distant.write("refused")
    assert time.monotonic() - began <= CONNECT_SECONDS + 3

    await distant.link.heal()
    await distant.until_it_works("after")
    assert distant.database.health().ok
    assert await distant.rows() == set(distant.told)
