from mikan_gateway.storage.database import Database
from mikan_gateway.storage.outgoing import Outgoing, OutgoingStore


async def test_an_intent_is_kept_until_it_is_known_to_be_sent(database: Database) -> None:
    store = OutgoingStore(database)
    assert await store.get("r1", "answer") is None
    assert await store.begin("r1", "answer", "n1") == Outgoing("r1", "answer", "n1", None)
    await store.sent("r1", "answer", "m1")
    assert await store.get("r1", "answer") == Outgoing("r1", "answer", "n1", "m1")


async def test_beginning_again_returns_what_was_begun(database: Database) -> None:
    store = OutgoingStore(database)
    await store.begin("r1", "answer", "n1")
    await store.sent("r1", "answer", "m1")
    assert await store.begin("r1", "answer", "n2") == Outgoing("r1", "answer", "n1", "m1")


async def test_a_run_lists_its_intents_by_slot(database: Database) -> None:
    store = OutgoingStore(database)
    for run_id, slot in (("r1", "b"), ("r2", "c"), ("r1", "a")):
        await store.begin(run_id, slot, "n")
    assert [one.slot for one in await store.of_run("r1")] == ["a", "b"]


async def test_a_run_that_begins_learns_what_was_sent_of_it(database: Database) -> None:
    store = OutgoingStore(database)
    assert await store.begin_run("r1", "b", "n1") == [Outgoing("r1", "b", "n1", None)]
    await store.begin("r1", "a", "n2")
    await store.sent("r1", "a", "m1")
    again = await store.begin_run("r1", "b", "n3")
    assert again == [Outgoing("r1", "a", "n2", "m1"), Outgoing("r1", "b", "n1", None)]
