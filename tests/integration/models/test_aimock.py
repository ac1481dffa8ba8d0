"""Every way to an upstream against a server that we did not write: what a client sees is the same."""

import pytest

from models_service import RunningModels, tools

THROUGH = "through/gpt-4o"
TRANSLATED = "translated/gpt-4o"
ANTHROPIC = "anthropic/claude-sonnet-4-5"
EVERY_WAY = pytest.mark.parametrize("model", [THROUGH, TRANSLATED, ANTHROPIC])


@EVERY_WAY
async def test_a_streamed_answer_is_whole_and_priced(running: RunningModels, model: str) -> None:
    answer = await running.ask(model, "plain")

    assert (answer.status, answer.done, answer.finish) == (200, True, ["stop"])
    assert answer.text == "Hello from an independent server."
    assert len(answer.chunks) > 3
    assert (answer.usage["prompt_tokens"], answer.usage["completion_tokens"]) == (1000, 100)
    # 2.5 and 10 USD a million for GPT-4o, configured or listed; 3 and 15 for Claude Sonnet 4.5, listed.
    assert answer.usage["cost_usd"] == (0.0045 if model == ANTHROPIC else 0.0035)
    assert answer.usage["priced"] is True


@EVERY_WAY
async def test_a_whole_answer_is_the_same(running: RunningModels, model: str) -> None:
    answer = await running.ask(model, "plain", stream=False)

    assert answer.body["choices"][0]["message"]["content"] == "Hello from an independent server."
    assert answer.body["choices"][0]["finish_reason"] == "stop"
    assert answer.body["usage"]["total_tokens"] == 1100


@EVERY_WAY
async def test_tool_calls_come_in_pieces_and_their_results_go_back(running: RunningModels, model: str) -> None:
    asked = await running.ask(model, "call tools", tools=tools("bash", "read"))

    command = {"command": "echo one two three four five six seven"}
    assert asked.calls == [("bash", command), ("read", {"path": "notes.txt"})]
    assert asked.finish == ["tool_calls"]
    pieces = [p for c in asked.chunks for choice in c["choices"] for p in choice["delta"].get("tool_calls") or ()]
    assert len(pieces) > 4
    ids = [piece["id"] for piece in pieces if piece.get("id")]
    assert len(set(ids)) == 2

    calls = [
        {"id": i, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for i, (name, _) in zip(ids, asked.calls, strict=True)
    ]
    history = [
        {"role": "user", "content": "call tools"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": i, "content": "done"} for i in ids),
    ]
    answer = await running.ask(model, history, tools=tools("bash", "read"))

    assert (answer.text, answer.done) == ("Both tools have run.", True)


@EVERY_WAY
async def test_a_rate_limit_keeps_status_reason_and_wait(running: RunningModels, model: str) -> None:
    answer = await running.ask(model, "limited")

    assert (answer.status, answer.error["code"], answer.headers["retry-after"]) == (429, "rate_limit_exceeded", "1")
    assert answer.error["message"] == f"{model.partition('/')[0]}: Too many requests of this kind"


@EVERY_WAY
async def test_a_server_error_keeps_status_and_reason(running: RunningModels, model: str) -> None:
    answer = await running.ask(model, "broken")

    assert (answer.status, answer.error["code"], answer.error["type"]) == (500, "server_error", "upstream_error")
    assert answer.error["message"] == f"{model.partition('/')[0]}: The server has a bad day"


@EVERY_WAY
async def test_too_long_a_conversation_is_told_as_such(running: RunningModels, model: str) -> None:
    answer = await running.ask(model, "overflow")

    assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")


@EVERY_WAY
async def test_a_refused_key_points_to_the_admin_and_is_not_quoted(running: RunningModels, model: str) -> None:
    answer = await running.ask(model, "denied")

    name = model.partition("/")[0]
    assert (answer.status, answer.error["code"]) == (401, "provider_key_refused")
    assert answer.error["message"] == f"provider {name} refused the key it is configured with; an admin must replace it"


@EVERY_WAY
async def test_a_cut_stream_never_looks_whole(running: RunningModels, model: str) -> None:
    answer = await running.ask(model, "cut off")

    assert answer.status == 200
    assert answer.text
    assert "This answer is cut somewhere in the middle".startswith(answer.text[:40])
    assert (answer.done, answer.finish) == (False, [])
    assert answer.error["type"] == "upstream_cut"
