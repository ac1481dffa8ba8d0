import asyncio

import pytest

from gateway_doubles import inbound, key_of, posted
from mikan_api.identity import OfficeKey
from mikan_api.messaging import LogEntry
from mikan_gateway.exceptions import StorageError
from mikan_gateway.ports import InboundMessage
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.inventory import Inventory
from mikan_gateway.storage.messages import Accepted, accept_message, log_bot_message, log_entries
from mikan_gateway.storage.runs import unfinished_runs


async def _accept(database: Database, message: InboundMessage, run_id: str | None = None) -> Accepted:
    return await database.write(lambda connection: accept_message(connection, message, run_id, 1.0))


async def _log(database: Database, office: OfficeKey, after: int = 0, limit: int = 200, size: int = 10**6):
    return await database.read(lambda connection: log_entries(connection, office, after, limit, size))


async def test_each_office_counts_its_messages_from_1_without_a_gap(database: Database) -> None:
    messages = [inbound(conversation, f"m{n}") for n in range(10) for conversation in ("C1", "C2")]
    accepted = await asyncio.gather(*(_accept(database, message) for message in messages))
    assert [one.number for one in accepted[0::2]] == list(range(1, 11))
    assert [one.number for one in accepted[1::2]] == list(range(1, 11))


async def test_a_second_delivery_keeps_number_and_run(database: Database) -> None:
    first = await _accept(database, inbound(), "r1")
    second = await _accept(database, inbound(), "r2")
    assert (first.number, first.run_id, first.run is not None) == (1, "r1", True)
    assert second == Accepted(1, "r1", None, None)
    assert [run.run_id for run in await database.read(unfinished_runs)] == ["r1"]


async def test_the_same_id_of_another_app_or_team_is_another_message(database: Database) -> None:
    numbers = [
        (await _accept(database, inbound(app=app, team=team))).number
        for app, team in (("A", "T"), ("A", "U"), ("B", "T"))
    ]
    assert numbers == [1, 2, 3]


async def test_a_message_told_again_with_a_mention_gets_its_one_run(database: Database) -> None:
    first = await _accept(database, inbound())
    second = await _accept(database, inbound(), "r1")
    third = await _accept(database, inbound(), "r2")
    assert (first.run_id, second.run_id, third.run_id) == (None, "r1", "r1")
    assert (second.number, second.entry, second.run is not None) == (1, None, True)
    assert third.run is None


async def test_what_we_posted_is_logged_once(database: Database) -> None:
    await _accept(database, inbound())
    for _ in range(2):
        accepted = await database.write(lambda connection: log_bot_message(connection, key_of(), posted("p1"), 2.0))
        assert accepted.number == 2
    assert [(entry.number, entry.from_bot) for entry in await _log(database, key_of())] == [(1, False), (2, True)]


async def test_posting_to_an_office_without_messages_is_an_error(database: Database) -> None:
    with pytest.raises(StorageError, match="has no messages yet"):
        await database.write(lambda connection: log_bot_message(connection, key_of(), posted("p1"), 2.0))


async def test_the_log_comes_back_as_it_was_in_batches_with_each_messages_session(database: Database) -> None:
    texts = ["plain", "nul \0 and ünïcode 🎉", "x" * 500, "last"]
    for n, text in enumerate(texts):
        await _accept(database, inbound(message_id=f"m{n}", text=text, session="C1:7"))
    entries = await _log(database, key_of())
    messages = [inbound(message_id=f"m{n}", text=text).event.message for n, text in enumerate(texts)]
    assert entries == tuple(
        LogEntry(number=n, message=message.model_copy(update={"session_key": "C1:7"}))
        for n, message in enumerate(messages, start=1)
    )
    assert [entry.number for entry in await _log(database, key_of(), after=1, limit=2)] == [2, 3]
    assert [entry.number for entry in await _log(database, key_of(), after=2, size=100)] == [3]


async def test_the_inventory_lists_offices_without_waking_them(database: Database) -> None:
    await _accept(database, inbound("C1", "m1"))
    await _accept(database, inbound("C1", "m2"))
    await _accept(database, inbound("C2", "m1"))
    found = {one.address.conversation_id: one.messages for one in await Inventory(database).offices()}
    assert found == {"C1": 2, "C2": 1}
