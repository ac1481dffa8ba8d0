import asyncio

import pytest

from gateway_doubles import TIME
from mikan_gateway.storage import console
from mikan_gateway.storage.console import RECENT, ConsoleMessage, ConsoleStore
from mikan_gateway.storage.database import Database


def _message(text: str, conversation: str = "C1", kind: str = "post") -> ConsoleMessage:
    return ConsoleMessage.model_validate(
        {
            "conversation": conversation,
            "message_id": "m1",
            "kind": kind,
            "author": "mikan",
            "from_bot": True,
            "text": text,
            "time": TIME,
        }
    )


async def test_a_feed_is_read_in_order_from_where_one_was(database: Database) -> None:
    store = ConsoleStore(database)
    first = await store.append(_message("one"))
    await store.append(_message("other", "C2"))
    await store.append(_message("one, edited \0", kind="edit"))
    assert [(m.kind, m.text) for m in await store.after("C1", 0)] == [("post", "one"), ("edit", "one, edited \0")]
    assert [m.text for m in await store.after("C1", first.seq)] == ["one, edited \0"]


async def test_a_nonce_used_before_stores_nothing_new(database: Database) -> None:
    store = ConsoleStore(database)
    first = await store.append(_message("one"), nonce="n")
    assert await store.append(_message("again"), nonce="n") == first
    assert await store.after("C1", 0) == [first]


async def test_waiting_ends_with_the_next_message_of_that_conversation(database: Database) -> None:
    store = ConsoleStore(database)
    waiting = asyncio.create_task(store.wait_after("C1", 0))
    await store.append(_message("elsewhere", "C2"))
    assert not waiting.done()
    await store.append(_message("here"))
    assert [m.text for m in await waiting] == ["here"]


async def test_a_message_found_again_after_a_restart_hides_none_that_followed_it(database: Database) -> None:
    store = ConsoleStore(database)
    first = await store.append(_message("one"), nonce="n")
    await store.append(_message("two"))
    restarted = ConsoleStore(database)
    await restarted.append(_message("one"), nonce="n")
    await restarted.append(_message("three"))
    assert [m.text for m in await restarted.after("C1", first.seq)] == ["two", "three"]


async def test_whoever_lags_behind_what_is_kept_in_memory_misses_nothing(database: Database) -> None:
    store = ConsoleStore(database)
    for number in range(2 * RECENT):
        await store.append(_message(str(number)))
    texts = [str(number) for number in range(2 * RECENT)]
    everything = await store.after("C1", 0)
    assert [m.text for m in everything] == texts
    for message in everything:
        follows = await store.after("C1", message.seq)
        assert [m.text for m in follows] == texts[int(message.text) + 1 :]
    assert [m.text for m in await store.after("C1", everything[-4].seq, limit=2)] == texts[-3:-1]


async def test_a_conversation_that_many_others_displaced_misses_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "RECENT_CONVERSATIONS", 1)
    store = ConsoleStore(database)
    first = await store.append(_message("one"))
    await store.append(_message("two"))
    await store.append(_message("other", "C2"))
    await store.append(_message("three"))
    assert [m.text for m in await store.after("C1", first.seq)] == ["two", "three"]
