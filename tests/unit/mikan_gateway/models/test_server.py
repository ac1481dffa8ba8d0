"""The HTTP surface, whole, with the scripted model behind it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mikan_api.identity import OfficeKey
from mikan_gateway.models import server
from mikan_gateway.models.server import EventStream, until_gone
from models_service import KEY, OFFICE, UID, ModelsFixture, RunningModels, token, tools


@pytest.fixture
async def running(models: ModelsFixture) -> AsyncIterator[RunningModels]:
    async with models.running() as running:
        yield running


async def test_a_streamed_answer_is_chunks_then_usage_then_done(running: RunningModels) -> None:
    answer = await running.ask("scripted/demo", "think: hm", stream=True)

    assert (answer.status, answer.done) == (200, True)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    deltas = [choice["delta"] for chunk in answer.chunks for choice in chunk["choices"]]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hm"},
        {"content": "(scripted "},
        {"content": "model) "},
        {"content": "I "},
        {"content": "thought "},
        {"content": "about "},
        {"content": "it."},
        {},
    ]
    assert answer.finish == ["stop"]
    assert answer.usage == {
        "prompt_tokens": 2,
        "completion_tokens": 10,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
        "cost_usd": 0.0,
        "priced": False,
    }


async def test_the_same_conversation_gives_the_same_stream(running: RunningModels) -> None:
    first = await running.ask("scripted/demo", "run: id", tools=tools("bash"))
    second = await running.ask("scripted/demo", "run: id", tools=tools("bash"))

    assert [c["id"] for c in first.chunks] == [c["id"] for c in second.chunks]
    assert [c["choices"] for c in first.chunks] == [c["choices"] for c in second.chunks]


async def test_a_whole_answer_has_message_and_usage(running: RunningModels) -> None:
    answer = await running.ask("scripted/demo", "run: id", stream=False, tools=tools("bash"))

    assert answer.body["object"] == "chat.completion"
    (choice,) = answer.body["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert (choice["finish_reason"], call["function"]) == (
        "tool_calls",
        {"name": "bash", "arguments": '{"command":"id"}'},
    )
    assert answer.body["usage"]["priced"] is False


@pytest.mark.parametrize(
    ("authorization", "message"),
    [
        (None, "send the office's token as 'Authorization: Bearer <token>'"),
        ("Basic abc", "send the office's token as 'Authorization: Bearer <token>'"),
        ("Bearer nonsense", "malformed office token; "),
        (f"Bearer {token(key=b'x' * 32)}", "office token with a wrong signature; "),
    ],
)
async def test_a_bad_token_is_401_and_never_echoed(
    running: RunningModels, authorization: str | None, message: str
) -> None:
    headers = {"authorization": authorization} if authorization else {}
    response = await running.client.post("/v1/chat/completions", content=b"{}", headers=headers)

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["type"]) == (401, "invalid_office_token", "authentication_error")
    assert error["message"].startswith(message)
    assert response.headers["www-authenticate"] == "Bearer"
    assert authorization is None or authorization.split()[1] not in response.text


@pytest.mark.parametrize("bearer", [token(uid="another"), token(epoch=1)])
async def test_a_token_of_another_incarnation_is_403(running: RunningModels, bearer: str) -> None:
    answer = await running.ask("scripted/demo", "hello", bearer=bearer)

    assert (answer.status, answer.error["code"]) == (403, "office_gone")


async def test_a_deleted_office_is_403_and_a_revoked_one_too(models: ModelsFixture, running: RunningModels) -> None:
    models.offices.offices = {OFFICE: (UID, 7)}
    assert (await running.ask("scripted/demo", "hello")).status == 403
    models.offices.offices = {}
    assert (await running.ask("scripted/demo", "hello")).error["code"] == "office_gone"


@pytest.mark.parametrize("known", [{}, {OFFICE: ("of-before", 0)}])
async def test_an_office_that_may_have_been_made_unseen_is_503(
    models: ModelsFixture, running: RunningModels, known: dict[OfficeKey, tuple[str, int]]
) -> None:
    models.offices.offices, models.offices.problem = known, "the watch was cut off"

    answer = await running.ask("scripted/demo", "hello")

    assert (answer.status, answer.error["code"], answer.headers["retry-after"]) == (503, "offices_unknown", "1")


async def test_a_known_office_is_served_while_the_api_server_is_away(
    models: ModelsFixture, running: RunningModels
) -> None:
    models.offices.problem = "the watch was cut off"

    assert (await running.ask("scripted/demo", "hello")).status == 200


@pytest.mark.parametrize(("listed", "status"), [(False, 503), (True, 200)])
async def test_a_watch_of_offices_that_broke_is_named_and_takes_nothing_with_it(
    models: ModelsFixture, running: RunningModels, listed: bool, status: int
) -> None:
    models.offices.listed, models.offices.problem = listed, "the watch was cut off"
    response = await running.client.get("/readyz")

    assert (response.status_code, response.json()["parts"]["offices"]) == (status, "the watch was cut off")


async def test_the_previous_key_is_good_while_it_is_there(models: ModelsFixture) -> None:
    (models.config.keys_dir / "current").write_bytes(b"n" * 32)
    (models.config.keys_dir / "previous").write_bytes(KEY)
    async with models.running() as running:
        assert (await running.ask("scripted/demo", "hello")).status == 200
        assert (await running.ask("scripted/demo", "hello", bearer=token(key=b"n" * 32))).status == 200


@pytest.mark.parametrize(
    ("model", "status", "code", "message"),
    [
        ("demo", 400, "invalid_request", "model: a string of the form provider/model"),
        ("nobody/demo", 404, "model_not_found", "no provider 'nobody' is configured; known: scripted"),
        ("scripted/none", 404, "model_not_found", "no script 'none'; known: scripted/demo"),
    ],
)
async def test_an_unknown_model_is_named_with_what_there_is(
    running: RunningModels, model: str, status: int, code: str, message: str
) -> None:
    answer = await running.ask(model, "hello")

    assert (answer.status, answer.error["code"], answer.error["message"]) == (status, code, message)


async def test_an_error_before_the_first_chunk_keeps_its_status(running: RunningModels) -> None:
    answer = await running.ask("scripted/demo", "error 503")

    assert (answer.status, answer.error["type"], answer.error["code"]) == (503, "upstream_error", "scripted_error")


async def test_a_cut_stream_ends_with_an_error_event_and_without_done(running: RunningModels) -> None:
    answer = await running.ask("scripted/demo", "cut: so far")

    assert (answer.status, answer.done, answer.finish) == (200, False, [])
    assert answer.text == "(scripted model) so far"
    assert (answer.error["type"], answer.error["code"]) == ("upstream_cut", "stream_cut")


async def test_a_cut_whole_answer_is_an_error(running: RunningModels) -> None:
    answer = await running.ask("scripted/demo", "cut: so far", stream=False)

    assert (answer.status, answer.error["type"]) == (502, "upstream_cut")


async def test_a_request_over_the_limit_is_413(models: ModelsFixture) -> None:
    models.configure({"limits": {"requestBytes": 1024}})
    async with models.running() as running:
        declared = await running.ask("scripted/demo", "x" * 1024)

        async def body() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b"x" * 500

        headers = {"authorization": f"Bearer {token()}"}
        undeclared = await running.client.post("/v1/chat/completions", content=body(), headers=headers)

    assert (declared.status, declared.error["code"]) == (413, "request_too_large")
    assert (undeclared.status_code, undeclared.json()["error"]["code"]) == (413, "request_too_large")


async def test_models_are_listed_for_offices_only(models: ModelsFixture) -> None:
    entry = {"inputUsdPerMillion": 1, "outputUsdPerMillion": 2, "contextWindow": 1000}
    models.configure(
        {
            "providers": {
                "up": {"kind": "openai", "apiBase": "http://x/v1", "models": {"m": entry}},
                "scripted": {"kind": "scripted"},
            }
        }
    )
    async with models.running() as running:
        refused = await running.client.get("/v1/models")
        headers = {"authorization": f"Bearer {token()}"}
        listed = await running.client.get("/v1/models", headers=headers)
        one = await running.client.get("/v1/models/up/m", headers=headers)
        other = await running.client.get("/v1/models/up/vendor/other", headers=headers)
        nobodys = await running.client.get("/v1/models/down/m", headers=headers)

    assert refused.status_code == 401
    assert [model["id"] for model in listed.json()["data"]] == ["scripted/demo", "up/m"]
    assert listed.json()["data"][1]["contextWindow"] == 1000
    assert one.json() == listed.json()["data"][1]
    assert (other.json()["id"], "contextWindow" in other.json()) == ("up/vendor/other", False)
    assert (nobodys.status_code, nobodys.json()["error"]["code"]) == (404, "model_not_found")


async def test_paths_that_are_not_served_answer_in_the_same_form(running: RunningModels) -> None:
    response = await running.client.post("/v1/embeddings", json={})

    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_served")


async def test_ready_names_every_part(models: ModelsFixture) -> None:
    models.configure({"providers": {"up": {"kind": "openai", "apiBase": "http://x/v1", "keyFile": "none"}}})
    async with models.running() as running:
        response = await running.client.get("/readyz")

    key = models.config.models_keys_dir / "none"
    assert response.status_code == 200
    assert response.json() == {
        "ok": True,
        "parts": {
            "models.json": "ok",
            "token keys": "ok",
            "offices": "ok",
            "litellm": "ok",
            "provider up": f"MIKAN_MODELS_KEYS_DIR: {key}: No such file or directory",
        },
    }


async def test_a_provider_without_its_key_says_so_to_who_calls_it(models: ModelsFixture) -> None:
    models.configure({"providers": {"up": {"kind": "openai", "apiBase": "http://x/v1", "keyFile": "none"}}})
    async with models.running() as running:
        answer = await running.ask("up/m", "hello")

    assert (answer.status, answer.error["code"]) == (503, "provider_fault")


async def test_a_process_that_never_had_a_configuration_is_alive_but_not_ready(models: ModelsFixture) -> None:
    models.config.models_config.write_text("{")
    async with models.running() as running:
        assert (await running.client.get("/healthz")).json() == {"ok": True}
        ready = await running.client.get("/readyz")
        answer = await running.ask("scripted/demo", "hello")

    assert ready.status_code == 503
    assert ready.json()["parts"]["models.json"].startswith("models.json: document: Invalid JSON")
    assert (answer.status, answer.error["code"]) == (503, "not_configured")


async def test_metrics_count_calls_without_naming_offices(running: RunningModels) -> None:
    await running.ask("scripted/demo", "tokens 5")
    await running.ask("scripted/demo", "error 500")
    await running.ask("scripted/never", "hello")

    text = (await running.client.get("/metrics")).text

    assert 'mikan_models_calls_total{model="demo",outcome="ok",provider="scripted"} 1.0' in text
    assert 'mikan_models_calls_total{model="demo",outcome="upstream_refused",provider="scripted"} 1.0' in text
    assert 'mikan_models_calls_total{model="other",outcome="model_not_found",provider="scripted"} 1.0' in text
    assert 'mikan_models_tokens_total{kind="output",model="demo",provider="scripted"} 10.0' in text
    assert "mikan_models_calls_running 0.0" in text
    assert OFFICE not in text


async def test_work_is_cancelled_when_the_client_goes_away() -> None:
    gone = asyncio.Event()
    cancelled = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def work() -> None:
        gone.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await until_gone(receive, work())

    assert cancelled.is_set()


async def test_work_that_fails_is_not_hidden() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def work() -> None:
        raise RuntimeError("ours")

    with pytest.raises(RuntimeError, match="ours"):
        await until_gone(receive, work())


async def test_a_quiet_stream_shows_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ALIVE_SECONDS", 0)
    sent: list[dict[str, Any]] = []
    twice = asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) == 3:
            twice.set()

    stream = EventStream(send)
    parts = [asyncio.create_task(stream.stay_alive()), asyncio.create_task(stream.send_all())]
    await twice.wait()
    for part in parts:
        part.cancel()

    assert [message["type"] for message in sent[:3]] == ["http.response.start", *["http.response.body"] * 2]
    assert sent[1]["body"] == b": alive\n\n"


async def test_events_that_come_at_once_leave_in_one_write() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    stream = EventStream(send)
    sending = asyncio.create_task(stream.send_all())
    await stream.write(b"one")
    await stream.write(b"two")
    await asyncio.sleep(0)
    stream.end(b"three")
    await sending

    bodies = [(message["body"], message["more_body"]) for message in sent[1:]]
    assert bodies == [(b"onetwo", True), (b"three", False)]


async def test_a_call_waits_for_a_client_that_does_not_read() -> None:
    reading = asyncio.Event()

    async def send(message: Any) -> None:
        await reading.wait()

    stream = EventStream(send)
    sending = asyncio.create_task(stream.send_all())
    await stream.write(b"taken")
    await asyncio.sleep(0)
    writing = asyncio.create_task(stream.write(bytes(server.MAX_WAITING + 1)))
    await asyncio.sleep(0)
    blocked = not writing.done()
    reading.set()
    await writing
    stream.end(b"")
    await sending

    assert blocked


async def test_an_unreadable_body_is_400(running: RunningModels) -> None:
    headers = {"authorization": f"Bearer {token()}"}
    response = await running.client.post("/v1/chat/completions", content=b"[", headers=headers)

    assert (response.status_code, json.loads(response.content)["error"]["message"]) == (
        400,
        "the request's body is not JSON",
    )
