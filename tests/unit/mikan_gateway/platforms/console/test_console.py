import asyncio
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from console_world import TOKEN, ConsoleWorld
from mikan_api.console import MAX_FILE_BYTES, MAX_SEND_BYTES
from mikan_api.environment import Listen
from mikan_api.exceptions import ConfigError
from mikan_api.messaging import ConversationKind, TrustModel
from mikan_gateway.exceptions import ClusterError, OfficeConflict, StorageFull
from mikan_gateway.platforms.console.platform import ConsolePlatform
from mikan_gateway.platforms.file_names import sanitized

HELLO = {"messageId": "u1", "userId": "ann", "userName": "Ann", "text": "hello"}


async def send(world: ConsoleWorld, body: dict[str, Any], conversation: str = "C1") -> httpx.Response:
    async with world.client() as client:
        return await client.post(f"/{conversation}/messages", json=body)


async def test_a_message_is_acknowledged_with_its_number_and_normalized(world: ConsoleWorld) -> None:
    response = await send(world, HELLO)

    assert (response.status_code, response.json()) == (202, {"logNumber": 1})
    message = world.intake.messages[0]
    event = message.event
    assert (event.conversation_id, event.session_key, event.conversation_kind) == ("C1", "C1", ConversationKind.DIRECT)
    assert (event.message.text, event.message.author.id, event.message.author.user_name) == ("hello", "ann", "Ann")
    assert (message.triggered, message.top_level, message.attachments) == (True, True, None)
    assert message.info.trust_model is TrustModel.MEMBERSHIP


async def test_the_same_message_twice_is_one_message(world: ConsoleWorld) -> None:
    numbers = [(await send(world, HELLO)).json() for _ in range(2)]

    assert numbers == [{"logNumber": 1}, {"logNumber": 1}]
    assert len(world.intake.messages) == 1


async def test_a_thread_has_a_session_of_its_own(world: ConsoleWorld) -> None:
    await send(world, HELLO | {"thread": "u0"})

    message = world.intake.messages[0]
    assert (message.event.session_key, message.top_level) == ("C1:u0", False)


@pytest.mark.parametrize("token", ["x", "wrong", TOKEN + "x", TOKEN[:-1]])
async def test_without_the_token_nothing_is_to_be_had(world: ConsoleWorld, token: str) -> None:
    async with world.client(token) as client:
        answers = [
            await client.get("/C1"),
            await client.post("/C1/messages", json=HELLO),
            await client.get("/C1/events"),
            await client.put("/C1/files/f1", content=b"x"),
            await client.get("/C1/files/f1"),
            await client.get("/nothing/here/at/all"),
        ]

    assert [answer.status_code for answer in answers] == [401] * 6
    assert world.intake.messages == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, "messageId: Field required"),
        (HELLO | {"messageId": "a b"}, "messageId"),
        (HELLO | {"messageId": "../x"}, "messageId"),
        (HELLO | {"userId": ""}, "userId"),
        (HELLO | {"thread": "a:b"}, "thread"),
        (HELLO | {"attachments": [{"id": "../x", "name": "a"}]}, "attachments.0.id"),
    ],
)
async def test_a_bad_message_is_told_which_field(world: ConsoleWorld, body: dict[str, Any], fault: str) -> None:
    response = await send(world, body)

    assert response.status_code == 400
    assert fault in response.json()["error"]


@pytest.mark.parametrize("conversation", ["a:b", "%01", "..%5c", "%2e%2e"])
async def test_a_bad_conversation_is_refused(world: ConsoleWorld, conversation: str) -> None:
    response = await send(world, HELLO, conversation)

    assert response.status_code in {400, 404}
    assert world.intake.messages == []


async def test_a_message_that_is_too_large_is_refused(world: ConsoleWorld) -> None:
    async with world.client() as client:
        response = await client.post("/C1/messages", content=b"x" * (MAX_SEND_BYTES + 1))

    assert response.status_code == 413


@pytest.mark.parametrize(
    ("failure", "status"),
    [(OfficeConflict("taken"), 409), (ClusterError("away"), 503), (StorageFull("full"), 507)],
)
async def test_what_keeps_a_message_out_is_said(world: ConsoleWorld, failure: Exception, status: int) -> None:
    world.intake.failures = [failure]
    response = await send(world, HELLO)

    assert (response.status_code, response.json()) == (status, {"error": str(failure)})
    assert (await send(world, HELLO)).status_code == 202


async def test_while_stopping_no_message_is_taken(world: ConsoleWorld) -> None:
    await world.platform.stop_intake()

    assert (await send(world, HELLO)).status_code == 503


async def test_all_that_is_shown_is_streamed_in_order(world: ConsoleWorld, tmp_path: Path) -> None:
    (tmp_path / "report").write_text("content")
    target = world.target()
    async with world.watching() as events:
        message_id = await world.platform.post(target, "one", "n1")
        await world.platform.edit(target, message_id, "two")
        await world.platform.upload(target, tmp_path / "report", "report.txt", "Report", "n2")
        await world.platform.delete(target, message_id)
        await world.platform.set_working(target, False)
        seen = [await anext(events) for _ in range(5)]

    assert [(e.kind, e.text, e.reply_to) for e in seen] == [
        ("post", "one", "u1"),
        ("edit", "two", "u1"),
        ("upload", "", "u1"),
        ("delete", "", "u1"),
        ("working", "", "u1"),
    ]
    assert seen[0].message_id == seen[1].message_id == seen[3].message_id == message_id
    assert (seen[2].file_name, seen[2].title, seen[2].size) == ("report.txt", "Report", 7)
    async with world.client() as client:
        assert (await client.get(f"/C1/files/{seen[2].file_id}")).text == "content"


async def test_a_stream_resumes_after_a_restart_where_it_broke(world: ConsoleWorld) -> None:
    await world.platform.post(world.target(), "one", "n1")
    async with world.watching() as events:
        first = await anext(events)
    await world.restart()
    await world.platform.post(world.target(), "two", "n2")

    async with world.watching(first.seq) as events:
        assert (await anext(events)).text == "two"
    async with world.client() as client:
        assert (await client.get("/C1")).json() == {"lastEvent": first.seq + 1}


async def test_a_nonce_used_before_is_the_message_of_then_even_after_a_restart(world: ConsoleWorld) -> None:
    first = await world.platform.post(world.target(), "one", "n1")
    await world.restart()

    assert await world.platform.post(world.target(), "one", "n1") == first
    async with world.client() as client:
        assert (await client.get("/C1")).json() == {"lastEvent": 1}


async def test_drafts_are_shown_but_not_kept(world: ConsoleWorld) -> None:
    target = world.target()
    message_id = await world.platform.post(target, "a", "n1")
    await world.platform.edit(target, message_id, "a b", draft=True)
    async with world.watching(1) as events:
        draft = await anext(events)
        await world.platform.edit(target, message_id, "a b c")
        final = await anext(events)
    async with world.watching(0) as events:
        later = [await anext(events) for _ in range(2)]

    assert (draft.kind, draft.seq, draft.text) == ("draft", 0, "a b")
    assert (final.kind, final.seq, final.text) == ("edit", 2, "a b c")
    assert [event.kind for event in later] == ["post", "edit"]


async def test_conversations_see_nothing_of_each_other(world: ConsoleWorld) -> None:
    await world.platform.post(world.target(), "for C1", "n1")
    async with world.watching(0, "C2") as events:
        waiting = asyncio.ensure_future(anext(events))
        await world.platform.post(world.target(), "for C1 too", "n2")
        done, _ = await asyncio.wait({waiting}, timeout=0.2)
        waiting.cancel()

    assert done == set()


async def test_attachments_are_put_first_and_fetched_by_the_intake(world: ConsoleWorld) -> None:
    async with world.client() as client:
        assert (await client.put("/C1/files/f1", content=b"bytes")).json() == {"size": 5}
    files = [{"id": "f1", "name": "my file/ü.txt"}, {"id": "f2", "name": "never sent"}]
    await send(world, HELLO | {"attachments": files})

    first, second = await world.attachments(world.intake.messages[0])
    assert (first.original_name, first.size, first.error) == ("my file/ü.txt", 5, None)
    assert first.name.endswith("_0_my_file__.txt")
    assert second.error == "the file was not uploaded before the message"


async def test_a_file_that_is_too_large_is_refused_and_leaves_nothing(world: ConsoleWorld) -> None:
    async def content() -> Any:
        for _ in range(MAX_FILE_BYTES // 1_048_576 + 1):
            yield b"x" * 1_048_576

    async with world.client() as client:
        response = await client.put("/C1/files/f1", content=content())
        assert response.status_code == 413
        assert (await client.get("/C1/files/f1")).status_code == 404
    assert [path for path in (world.root / "files").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("file_id", ["..%2f..%2fmikan.db", ".hidden", "a%2fb"])
async def test_a_file_id_reaches_no_other_file(world: ConsoleWorld, file_id: str) -> None:
    async with world.client() as client:
        assert (await client.get(f"/C1/files/{file_id}")).status_code in {400, 404}


async def test_an_address_that_is_taken_is_a_clear_error(world: ConsoleWorld) -> None:
    second = ConsolePlatform(world.platform.feed._store, world.root, Listen("127.0.0.1", world.port), TOKEN)

    with pytest.raises(ConfigError, match=f"can't listen on 127.0.0.1:{world.port}"):
        await second.start(world.intake)
    assert second.health().ok is False


@pytest.mark.parametrize(
    ("name", "plain"), [("a.txt", "a.txt"), ("../x", "_x"), ("…", "_"), (".bashrc", "bashrc"), ("", "file")]
)
def test_names_are_sanitized(name: str, plain: str) -> None:
    assert sanitized(name) == plain


async def test_a_websocket_is_refused_and_fills_no_log(world: ConsoleWorld, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(world.url.replace("http", "ws"), proxy=None):
            pass
    assert caught.value.response.status_code == 403
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
