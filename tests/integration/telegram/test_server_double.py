"""The server that plays Telegram refuses what Telegram refuses, in its words, and so proves something."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from servers.telegram.server import TelegramServer


@pytest.fixture
async def client(telegram: TelegramServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{telegram.base_url}{telegram.token}/", trust_env=False) as client:
        yield client


async def call(client: httpx.AsyncClient, method: str, **parameters: Any) -> Any:
    """The result, or the description of an error."""
    async with asyncio.timeout(10):
        body = (await client.post(method, json=parameters)).json()
    return body["result"] if body["ok"] else body["description"]


@pytest.mark.parametrize(
    ("html", "complaint"),
    [
        ("<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
        ("é<p>x</p>", 'Unsupported start tag "p" at byte offset 2'),
        ("<b>x</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
        ("x</b>", "Unexpected end tag at byte offset 1"),
        ("x <", "Unclosed start tag at byte offset 2"),
        ("<b", "Unclosed start tag at byte offset 0"),
        ("<b>x</b", "Unclosed end tag at byte offset 4"),
        ('<span class="x">x</span>', 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
    ],
)
async def test_html_that_is_not_telegrams_is_refused_with_its_place(
    telegram: TelegramServer, client: httpx.AsyncClient, html: str, complaint: str
) -> None:
    telegram.private(42)

    said = await call(client, "sendMessage", chat_id=42, text=html, parse_mode="HTML")

    assert said == f"Bad Request: can't parse entities: {complaint}"


async def test_the_limit_counts_utf16_units_after_the_tags_are_read(
    telegram: TelegramServer, client: httpx.AsyncClient
) -> None:
    telegram.private(42)
    fits = "<b>" + "&lt;" * 4_094 + "😀" + "</b>"

    assert (await call(client, "sendMessage", chat_id=42, text=fits, parse_mode="HTML"))["message_id"] == 1
    assert await call(client, "sendMessage", chat_id=42, text="x" * 4_095 + "😀") == "Bad Request: message is too long"
    assert await call(client, "sendMessage", chat_id=42, text=" \n ") == "Bad Request: message text is empty"


async def test_messages_that_are_gone_the_same_or_somebody_elses_are_not_edited(
    telegram: TelegramServer, client: httpx.AsyncClient
) -> None:
    ann = telegram.private(42)
    theirs = ann.send("mine")
    ours = await call(client, "sendMessage", chat_id=42, text="<b>x</b>", parse_mode="HTML")
    edit = {"chat_id": 42, "message_id": ours["message_id"]}

    assert (await call(client, "editMessageText", **edit, text="<b>x</b>", parse_mode="HTML")).startswith(
        "Bad Request: message is not modified"
    )
    assert (await call(client, "editMessageText", **edit, text="x"))["text"] == "x"
    assert await call(client, "editMessageText", chat_id=42, message_id=99, text="x") == (
        "Bad Request: message to edit not found"
    )
    assert await call(client, "editMessageText", chat_id=42, message_id=theirs.id, text="x") == (
        "Bad Request: message can't be edited"
    )
    assert await call(client, "deleteMessage", chat_id=42, message_id=99) == "Bad Request: message to delete not found"


async def test_chats_that_are_not_there_or_closed_are_refused(
    telegram: TelegramServer, client: httpx.AsyncClient
) -> None:
    ann = telegram.private(42)
    ann.person.blocked = True

    assert await call(client, "sendMessage", chat_id=1, text="x") == "Bad Request: chat not found"
    assert await call(client, "sendMessage", chat_id=42, text="x") == "Forbidden: bot was blocked by the user"
    assert await call(client, "sendPoll", chat_id=42) == "Not Found: method not found"


async def test_a_reply_to_what_is_gone_needs_leave_to_stand_alone(
    telegram: TelegramServer, client: httpx.AsyncClient
) -> None:
    telegram.private(42)

    strict = {"message_id": 5}
    assert await call(client, "sendMessage", chat_id=42, text="x", reply_parameters=strict) == (
        "Bad Request: message to be replied not found"
    )
    loose = {"message_id": 5, "allow_sending_without_reply": True}
    assert (await call(client, "sendMessage", chat_id=42, text="x", reply_parameters=loose))["message_id"] == 1


async def test_updates_stay_until_the_offset_confirms_them(telegram: TelegramServer, client: httpx.AsyncClient) -> None:
    ann = telegram.private(42)
    for text in ("one", "two", "three"):
        ann.send(text)

    first = await call(client, "getUpdates", limit=2)
    again = await call(client, "getUpdates", limit=2)
    rest = await call(client, "getUpdates", offset=first[-1]["update_id"] + 1)

    assert [u["message"]["text"] for u in first] == ["one", "two"]
    assert again == first[:1]
    assert [u["message"]["text"] for u in rest] == ["three"]
    assert await call(client, "getUpdates", offset=rest[-1]["update_id"] + 1) == []


async def test_a_long_poll_returns_when_something_happens(telegram: TelegramServer, client: httpx.AsyncClient) -> None:
    ann = telegram.private(42)
    poll = asyncio.create_task(call(client, "getUpdates", timeout=30, allowed_updates=["message"]))
    await asyncio.sleep(0.05)
    ann.channel_post("not asked for")

    ann.send("hello")

    assert [u["message"]["text"] for u in await poll] == ["hello"]


async def test_a_second_poll_ends_the_first(telegram: TelegramServer, client: httpx.AsyncClient) -> None:
    first = asyncio.create_task(call(client, "getUpdates", timeout=30))
    await asyncio.sleep(0.05)

    second = asyncio.create_task(call(client, "getUpdates", timeout=1))

    assert await first == (
        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
    )
    assert await second == []
    assert telegram.conflicts == 1


async def test_no_updates_beside_a_webhook(telegram: TelegramServer, client: httpx.AsyncClient) -> None:
    await call(client, "setWebhook", url="https://example.org")

    assert (await call(client, "getUpdates")).startswith("Conflict: can't use getUpdates method while webhook")


async def test_flood_control_says_how_long_and_notes_who_does_not_wait(
    telegram: TelegramServer, client: httpx.AsyncClient
) -> None:
    telegram.private(42)
    telegram.flood.per_chat_second = 1
    await call(client, "sendMessage", chat_id=42, text="one")

    response = await client.post("sendMessage", json={"chat_id": 42, "text": "two"})

    assert response.status_code == 429
    assert response.json() == {
        "ok": False,
        "error_code": 429,
        "description": "Too Many Requests: retry after 1",
        "parameters": {"retry_after": 1},
    }
    assert telegram.flood.early == 0
    await call(client, "sendMessage", chat_id=42, text="three")
    assert telegram.flood.early == 1


async def test_a_group_has_twenty_a_minute(telegram: TelegramServer, client: httpx.AsyncClient) -> None:
    group = telegram.people.group(1, telegram.people.person(42))
    telegram.flood.per_group_minute = 20

    said = [await call(client, "sendMessage", chat_id=group.id, text=str(n)) for n in range(21)]

    assert [type(result) for result in said] == [dict] * 20 + [str]


async def test_another_token_is_nobody(telegram: TelegramServer) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.get(f"{telegram.base_url}123:x/getMe")

    assert (response.status_code, response.json()["description"]) == (401, "Unauthorized")


async def test_commands_have_telegrams_names_only(telegram: TelegramServer, client: httpx.AsyncClient) -> None:
    commands = [{"command": "auto-reply", "description": "x"}]

    assert await call(client, "setMyCommands", commands=commands) == "Bad Request: BOT_COMMAND_INVALID"


async def test_files_larger_than_a_bot_may_fetch_are_refused(
    telegram: TelegramServer, client: httpx.AsyncClient
) -> None:
    sent = telegram.private(42).send_file("film.mkv", b"x", declared=20 * 1024 * 1024 + 1)
    assert sent.file is not None

    assert await call(client, "getFile", file_id=sent.file.file_id) == "Bad Request: file is too big"
    assert await call(client, "getFile", file_id="none") == (
        "Bad Request: wrong file_id or the file is temporarily unavailable"
    )


async def test_who_asks_for_the_same_again_within_a_moment_gets_one_update(
    telegram: TelegramServer, client: httpx.AsyncClient
) -> None:
    ann = telegram.private(42)
    for text in ("one", "two"):
        ann.send(text)

    whole = await call(client, "getUpdates", timeout=0)
    hasty = await call(client, "getUpdates", timeout=0)
    await asyncio.sleep(0.55)
    patient = await call(client, "getUpdates", timeout=0)

    assert [len(updates) for updates in (whole, hasty, patient)] == [2, 1, 2]


async def test_a_poll_that_finds_something_ends_no_other(telegram: TelegramServer, client: httpx.AsyncClient) -> None:
    first = asyncio.create_task(call(client, "getUpdates", timeout=30))
    await asyncio.sleep(0.05)

    assert await call(client, "getUpdates", offset=5, timeout=0) == []
    telegram.private(42).send("hello")

    assert [u["message"]["text"] for u in await first] == ["hello"]
    assert telegram.conflicts == 0


async def test_texts_have_a_limit_before_they_are_parsed_too(
    telegram: TelegramServer, client: httpx.AsyncClient
) -> None:
    telegram.private(42)

    said = await call(client, "sendMessage", chat_id=42, text="<b></b>" * 5_000 + "x", parse_mode="HTML")

    assert said == "Bad Request: text is too long"


async def test_who_can_be_answered_no_more_is_named(telegram: TelegramServer, client: httpx.AsyncClient) -> None:
    ann, group = telegram.private(42), telegram.people.group(1, telegram.people.person(42))
    group.room.muted = True
    assert await call(client, "sendMessage", chat_id=group.id, text="x") == (
        "Bad Request: not enough rights to send text messages to the chat"
    )
    group.room.kicked = True
    assert await call(client, "sendMessage", chat_id=group.id, text="x") == (
        "Forbidden: bot was kicked from the supergroup chat"
    )
    ann.person.deleted = True
    assert await call(client, "sendMessage", chat_id=42, text="x") == "Forbidden: user is deactivated"


async def test_a_group_that_became_a_supergroup_says_where_it_went(
    telegram: TelegramServer, client: httpx.AsyncClient
) -> None:
    group = telegram.people.basic_group(7, telegram.people.person(42))
    later = group.upgrade(2)

    refused = (await client.post("sendMessage", json={"chat_id": group.id, "text": "x"})).json()
    told = await call(client, "getUpdates")

    assert refused["description"] == "Bad Request: group chat was upgraded to a supergroup chat"
    assert refused["parameters"] == {"migrate_to_chat_id": int(later.id)}
    assert told[0]["message"]["migrate_to_chat_id"] == int(later.id)
    assert (told[1]["message"]["migrate_from_chat_id"], told[1]["message"]["message_id"]) == (int(group.id), 1)


async def test_a_link_to_a_file_expires_and_another_can_be_had(
    telegram: TelegramServer, client: httpx.AsyncClient
) -> None:
    sent = telegram.private(42).send_file("notes.txt", b"remember")
    assert sent.file is not None
    files = f"{telegram.base_file_url}{telegram.token}"
    path = (await call(client, "getFile", file_id=sent.file.file_id))["file_path"]
    assert (await client.get(f"{files}/{path}")).content == b"remember"

    telegram.world.links.clear()

    assert (await client.get(f"{files}/{path}")).status_code == 404
    again = (await call(client, "getFile", file_id=sent.file.file_id))["file_path"]
    assert (await client.get(f"{files}/{again}")).content == b"remember"


@pytest.mark.parametrize(("width", "height", "taken"), [(800, 600, True), (9_000, 1_001, False), (2_100, 100, False)])
async def test_photos_have_a_shape(
    telegram: TelegramServer, client: httpx.AsyncClient, width: int, height: int, taken: bool
) -> None:
    telegram.private(42)
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + height.to_bytes(4)

    response = await client.post("sendPhoto", data={"chat_id": "42"}, files={"photo": ("plot.png", png)})

    assert response.json()["ok"] is taken
    assert taken or response.json()["description"] == "Bad Request: PHOTO_INVALID_DIMENSIONS"


async def test_everybody_is_refused_where_all_is_closed(telegram: TelegramServer, client: httpx.AsyncClient) -> None:
    telegram.private(42)
    telegram.flood.close_all(1)

    for method, parameters in (("sendMessage", {"text": "x"}), ("sendChatAction", {"action": "typing"})):
        assert await call(client, method, chat_id=42, **parameters) == "Too Many Requests: retry after 1"
