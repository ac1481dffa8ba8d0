"""What a run does from its message to its answer."""

import asyncio
import json
from pathlib import Path

import pytest

from agent_peers.gateway import GatewayPeer
from agent_peers.models import Answer, Call, Cut, EndEarly, ErrorEvent, Hold, ModelsPeer, Refuse, Text, say
from agent_peers.office import ADDRESS, entry, run_request, serving
from mikan_agent.executor.exceptions import ExecutorUnavailable
from mikan_agent.messages import AssistantMessage, ToolResultMessage, UserMessage
from mikan_agent.sandbox import StartingExecutor
from mikan_api.messaging import Attachment, ConversationKind
from mikan_api.responder import (
    DeleteResponse,
    Diagnostic,
    Respond,
    RunFinished,
    RunOutcome,
    RunStarted,
    ToolStatus,
    Upload,
    Usage,
    Working,
)
from mikan_api.settings import Budgets, Llm, ThinkingLevel
from mikan_api.wire import Stop

from .conftest import OpenStage, recorded_entries

CALLED_ONCE = Usage(input_tokens=10, output_tokens=5, cost_usd=0.001, model_calls=1)
CALLED_TWICE = Usage(input_tokens=20, output_tokens=10, cost_usd=0.002, model_calls=2)


async def test_one_connection_serves_one_model_call_after_another(stage: OpenStage) -> None:
    async with stage(say("one"), say("two"), say("three")) as s:
        for number in (1, 2, 3):
            await s.gateway.deliver(run_request("hello", f"r{number}"))
            await s.gateway.finished(f"r{number}")
        assert (len(s.models.requests), s.models.connections) == (3, 1)


async def test_a_message_is_answered_and_recorded(stage: OpenStage) -> None:
    async with stage(say("Good ", "morning.")) as s:
        await s.gateway.deliver(run_request("hello"))
        await s.gateway.finished("r1")
        assert s.gateway.operations("r1") == [
            RunStarted(),
            Respond(text="Good morning."),
            RunFinished(outcome=RunOutcome.COMPLETED, usage=CALLED_ONCE),
        ]
        assert s.models.authorizations == ["Bearer a-token-for-models"]
        assert s.models.requests[0]["model"] == "test/model"
        assert s.models.requests[0]["messages"][1:] == [{"role": "user", "content": "hello"}]
        user, answer = await s.session()
        assert isinstance(user, UserMessage)
        assert isinstance(answer, AssistantMessage)
        assert (user.text, answer.text, answer.stop_reason) == ("hello", "Good morning.", "stop")
        assert answer.usage.cost.total == 0.001


async def test_the_next_message_sees_the_conversation_so_far(stage: OpenStage) -> None:
    async with stage(say("one"), say("two")) as s:
        await s.gateway.deliver(run_request("first", "r1"))
        await s.gateway.deliver(run_request("second", "r2"))
        await s.gateway.finished("r2")
        assert s.models.requests[1]["messages"][1:] == [
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "one"},
            {"role": "user", "content": "second"},
        ]


async def test_the_session_is_intact_for_the_next_process(stage: OpenStage) -> None:
    async with stage(say("one")) as s:
        await s.gateway.deliver(run_request("first"))
        await s.gateway.finished("r1")
        assert [m.role for m in await s.session()] == ["user", "assistant"]


async def test_tool_calls_run_in_order_and_their_results_go_back_in_order(stage: OpenStage) -> None:
    calls = [
        Call("bash", {"command": "sleep 0.2; echo first > f; echo one", "label": "slow"}, "a", 0),
        Call("bash", {"command": "cat f; echo two", "label": "quick"}, "b", 1),
        Call("read", {"path": "f"}, "c", 2),
    ]
    async with stage(Answer([Text("Looking."), *calls]), say("Done.")) as s:
        await s.gateway.deliver(run_request())
        await s.gateway.finished("r1")
        assert s.gateway.operations("r1") == [
            RunStarted(),
            ToolStatus(call_id="a", label="slow", state="running"),
            ToolStatus(call_id="a", label="slow", state="done"),
            ToolStatus(call_id="b", label="quick", state="running"),
            ToolStatus(call_id="b", label="quick", state="done"),
            ToolStatus(call_id="c", label="read f", state="running"),
            ToolStatus(call_id="c", label="read f", state="done"),
            Respond(text="Looking.\n\nDone."),
            RunFinished(outcome=RunOutcome.COMPLETED, usage=CALLED_TWICE),
        ]
        assert [(m["tool_call_id"], m["content"]) for m in s.models.requests[1]["messages"] if m["role"] == "tool"] == [
            ("a", "one"),
            ("b", "first\ntwo"),
            ("c", "first"),
        ]


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (Call("bash", '{"command": "ec'), "The arguments are not valid JSON"),
        (Call("bash", "[1]"), "The arguments must be a JSON object. Received: [1]"),
        (Call("bash", {"comand": "ls"}), "Wrong arguments for bash. command: Field required; comand: Extra inputs"),
        (
            Call("fly", {}),
            "There is no tool 'fly'. There are: read, bash, edit, write, attach, subagent, skill, history, event.",
        ),
        (Call("read", {"path": "nowhere"}), "no such file"),
        (Call("bash", {"command": "echo out; exit 7"}), "out\n\nExit code 7"),
    ],
)
async def test_a_call_that_fails_is_told_to_the_model_and_the_run_goes_on(
    stage: OpenStage, call: Call, result: str
) -> None:
    async with stage(Answer([call]), say("I see.")) as s:
        await s.gateway.deliver(run_request())
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.COMPLETED
        told = s.models.requests[1]["messages"][-1]
        assert told["role"] == "tool"
        assert result.lower() in told["content"].lower()
        states = [o.state for o in s.gateway.operations("r1") if isinstance(o, ToolStatus)]
        assert states[-1] == "failed"
        recorded = (await s.session())[2]
        assert isinstance(recorded, ToolResultMessage)
        assert recorded.is_error


async def test_a_cut_stream_is_asked_again_and_nothing_shown_is_repeated(stage: OpenStage) -> None:
    async with stage(Answer([Text("Once upon "), hold := Hold(), Cut()]), say("Once upon ", "a time.")) as s:
        await s.gateway.deliver(run_request())
        await s.gateway.until(lambda: s.gateway.seen.texts.get("r1") == "Once upon ")
        hold.release()
        await s.gateway.finished("r1")
        assert all(delta.offset for delta in s.gateway.seen.deltas[1:])
        assert s.gateway.operations("r1") == [
            RunStarted(),
            Working(label="the model did not answer; trying again in 0 s"),
            Working(),
            Respond(text="Once upon a time."),
            RunFinished(outcome=RunOutcome.COMPLETED, usage=CALLED_ONCE.model_copy(update={"model_calls": 2})),
        ]
        assert [m.role for m in await s.session()] == ["user", "assistant"]


async def test_a_repeat_that_says_something_else_replaces_what_was_shown(stage: OpenStage) -> None:
    second = Hold()
    async with stage(
        Answer([Text("Once upon "), hold := Hold(), Cut()]), Answer([Text("Long ago"), second, Text(".")])
    ) as s:
        await s.gateway.deliver(run_request())
        await s.gateway.until(lambda: s.gateway.seen.texts.get("r1") == "Once upon ")
        hold.release()
        await s.gateway.until(lambda: s.gateway.seen.texts.get("r1") == "Long ago")
        second.release()
        await s.gateway.finished("r1")
        assert Respond(text="Long ago.") in s.gateway.operations("r1")


@pytest.mark.parametrize(
    "failure",
    [
        Refuse(429, {"message": "slow down", "code": "rate_limit_exceeded"}, {"retry-after": "0"}),
        Refuse(503, {"message": "overloaded"}),
        Refuse(502, {"message": "no upstream", "code": "upstream_unreachable"}),
        Answer([Text("x"), EndEarly()]),
        Answer([ErrorEvent({"message": "overloaded", "type": "overloaded_error"})]),
        Answer([Text("x"), ErrorEvent({"message": "cut", "type": "upstream_cut", "code": "stream_cut"})]),
    ],
)
async def test_a_transient_failure_is_retried(stage: OpenStage, failure: Answer | Refuse) -> None:
    async with stage(failure, say("fine")) as s:
        await s.gateway.deliver(run_request())
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.COMPLETED
        assert Respond(text="fine") in s.gateway.operations("r1")


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Refuse(401, {"message": "bad key", "code": "provider_key_refused"}), "An admin has to check its key"),
        (Refuse(404, {"message": "no model test/model", "code": "model_not_found"}), "Choose another one with /model"),
        (Refuse(402, {"message": "1 USD spent", "code": "office_cap_exceeded"}), "The spending cap is reached"),
        (Refuse(400, {"message": "too long", "code": "context_length_exceeded"}), "Start a fresh session with /new"),
        (Refuse(400, {"message": "bad {thing}", "code": "invalid_request"}), "refused the request: bad {thing}"),
        (Refuse(429, {"message": "later"}, {"retry-after": "3600"}), "Try again in a few minutes"),
        (Refuse(429, {"message": "you owe", "code": "insufficient_quota"}), "The spending cap is reached"),
    ],
)
async def test_a_lasting_failure_is_told_at_once_with_the_next_step(
    stage: OpenStage, failure: Refuse, words: str
) -> None:
    async with stage(failure) as s:
        await s.gateway.deliver(run_request())
        finished = await s.gateway.finished("r1")
        assert finished.outcome is RunOutcome.FAILED
        started, diagnostic, _ = s.gateway.operations("r1")
        assert started == RunStarted()
        assert isinstance(diagnostic, Diagnostic)
        assert words in diagnostic.text
        assert len(s.models.requests) == 1


async def test_retries_are_bounded_and_the_partial_answer_stays(stage: OpenStage) -> None:
    async with stage(*[Answer([Text("Half an "), Cut()])] * 4) as s:
        await s.gateway.deliver(run_request())
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.FAILED
        assert len(s.models.requests) == 4
        respond, diagnostic, _ = s.gateway.operations("r1")[-3:]
        assert respond == Respond(text="Half an")
        assert isinstance(diagnostic, Diagnostic)
        assert diagnostic.text.startswith("The model could not be reached")


async def test_an_unreachable_models_service_is_named(stage: OpenStage) -> None:
    async with stage() as s:
        await s.models.__aexit__()
        await s.gateway.deliver(run_request())
        finished = await s.gateway.finished("r1")
        assert finished.outcome is RunOutcome.FAILED
        assert finished.detail == (
            "The model could not be reached: no connection to the models service (ConnectionRefusedError). "
            "Try again in a moment; if it stays, tell an admin."
        )


@pytest.mark.parametrize(
    ("budgets", "detail"),
    [
        (Budgets(model_calls=1), "model calls: 1 allowed"),
        (Budgets(tokens=14), "tokens: 15 used, 14 allowed"),
        (Budgets(cost_usd=0.0005), "cost: 0.0010 USD used, 0.0005 allowed"),
    ],
)
async def test_a_budget_ends_the_run_and_says_which(stage: OpenStage, budgets: Budgets, detail: str) -> None:
    async with stage(Answer([Call("bash", {"command": "true"})]), say("never")) as s:
        await s.gateway.deliver(run_request(budgets=budgets))
        finished = await s.gateway.finished("r1")
        assert (finished.outcome, finished.detail) == (RunOutcome.BUDGET_EXCEEDED, detail)
        assert len(s.models.requests) == 1
        assert [m.role for m in await s.session()] == ["user", "assistant", "toolResult"]


async def test_the_time_budget_ends_a_running_command(stage: OpenStage) -> None:
    async with stage(Answer([Call("bash", {"command": "sleep 600"})])) as s:
        await s.gateway.deliver(run_request(budgets=Budgets(duration="300ms")))
        finished = await s.gateway.finished("r1")
        assert (finished.outcome, finished.detail) == (RunOutcome.BUDGET_EXCEEDED, "duration: 300ms allowed")


async def test_a_silent_scheduled_run_posts_nothing(stage: OpenStage) -> None:
    async with stage(say("[SILENT]\n")) as s:
        await s.gateway.deliver(run_request(scheduled=True))
        await s.gateway.finished("r1")
        assert s.gateway.operations("r1")[1:-1] == [DeleteResponse()]
        assert "scheduled event" in s.models.requests[0]["messages"][0]["content"]


async def test_a_scheduled_run_that_worked_and_found_nothing_to_say_posts_nothing(stage: OpenStage) -> None:
    look = Answer([Text("Let me look first."), Call("history", {"query": "build"})])
    async with stage(look, say("[SILENT]")) as s:
        await s.gateway.deliver(run_request(scheduled=True))
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.COMPLETED
        operations = [o for o in s.gateway.operations("r1")[1:-1] if not isinstance(o, ToolStatus)]
        assert operations == [DeleteResponse()]


async def test_an_answer_of_white_space_alone_is_taken_back_and_not_shown_afterwards(stage: OpenStage) -> None:
    async with stage(Answer([Text("\n"), Call("history", {"query": "x"})]), say(" ")) as s:
        await s.gateway.deliver(run_request())
        await s.gateway.finished("r1")
        assert [type(o) for o in s.gateway.operations("r1")[-2:]] == [DeleteResponse, RunFinished]
        pacing = [task for task in asyncio.all_tasks() if "_pace" in repr(task.get_coro())]
        assert pacing == []


async def test_silent_is_an_ordinary_word_in_an_answer_to_a_person(stage: OpenStage) -> None:
    async with stage(say("[SILENT]")) as s:
        await s.gateway.deliver(run_request())
        await s.gateway.finished("r1")
        assert s.gateway.operations("r1")[1:-1] == [Respond(text="[SILENT]")]


async def test_in_a_shared_conversation_the_model_reads_who_wrote(stage: OpenStage) -> None:
    async with stage(say("hi")) as s:
        await s.gateway.deliver(run_request("hello", kind=ConversationKind.SHARED))
        await s.gateway.finished("r1")
        assert s.models.requests[0]["messages"][-1]["content"] == "<@ada>: hello"


async def test_notes_of_the_office_are_in_the_prompt_and_a_link_is_not_followed(stage: OpenStage) -> None:
    async with stage(say("a"), say("b")) as s:
        (s.directory / "MEMORY.md").write_text("Ada likes tea.")
        await s.gateway.deliver(run_request("x", "r1"))
        await s.gateway.finished("r1")
        (s.root / "secret").write_text("of another office")
        (s.directory / "MEMORY.md").unlink()
        (s.directory / "MEMORY.md").symlink_to(s.root / "secret")
        await s.gateway.deliver(run_request("y", "r2"))
        await s.gateway.finished("r2")
        assert "Ada likes tea." in s.models.requests[0]["messages"][0]["content"]
        assert "of another office" not in str(s.models.requests[1])


async def test_attachments_are_in_the_office_before_the_run_and_failures_are_named(stage: OpenStage) -> None:
    files = (
        Attachment(id="f1", name="1_a.txt", original_name="a.txt", media_type="text/plain", size=5),
        Attachment(id="f2", name="2_b.txt", original_name="b.txt", media_type="text/plain", size=5),
        Attachment(id="f3", name="3_c.txt", original_name="c.txt", error="larger than 1 MB"),
    )
    async with stage(say("ok")) as s:
        s.gateway.attachments["f1"] = b"hello"
        await s.gateway.add_to_log(entry("look", 1, files))
        await s.gateway.deliver(run_request("look", log_number=1, attachments=files))
        await s.gateway.finished("r1")
        assert (s.directory / "attachments" / "1_a.txt").read_bytes() == b"hello"
        assert sorted(p.name for p in (s.directory / "attachments").iterdir()) == ["1_a.txt"]
        assert s.models.requests[0]["messages"][-1]["content"] == (
            "look\n\nAttached files:\n"
            f"- {s.directory}/attachments/1_a.txt (a.txt, text/plain, 5 bytes)\n"
            "- b.txt: could not be fetched (the gateway refused: it is not there any more)\n"
            "- c.txt: could not be fetched (larger than 1 MB)"
        )


async def test_an_attached_picture_is_shown_to_the_model_and_stays_in_the_session(stage: OpenStage) -> None:
    png = b"\x89PNG\r\n\x1a\n"
    async with stage(say("seen"), say("still")) as s:
        s.gateway.attachments["f1"] = png
        files = (Attachment(id="f1", name="1_a.png", original_name="a.png", media_type="image/png", size=len(png)),)
        await s.gateway.add_to_log(entry("look", 1, files))
        await s.gateway.deliver(run_request("look", log_number=1, attachments=files))
        await s.gateway.deliver(run_request("and?", "r2"))
        await s.gateway.finished("r2")
        path = f"{s.directory}/attachments/1_a.png"
        shown = {
            "role": "user",
            "content": [
                {"type": "text", "text": f"look\n\nAttached files:\n- {path} (a.png, image/png, 8 bytes)"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ],
        }
        assert s.models.requests[0]["messages"][1] == s.models.requests[1]["messages"][1] == shown


NO_PICTURES = Refuse(400, {"message": "this model reads no images", "code": "upstream_refused"})


def _pictures(models: ModelsPeer) -> list[int]:
    """How many pictures each request showed."""
    return [json.dumps(request["messages"]).count("base64") for request in models.requests]


async def test_a_model_that_refuses_pictures_goes_on_without_them_and_another_sees_them(stage: OpenStage) -> None:
    async with stage(
        Answer([Call("read", {"path": "a.png"})]), NO_PICTURES, say("blind"), say("still"), say("seen")
    ) as s:
        (s.directory / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 40)
        await s.gateway.deliver(run_request("look", "r1"))
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.COMPLETED
        assert Respond(text="blind") in s.gateway.operations("r1")
        assert [o for o in s.gateway.operations("r1") if isinstance(o, Diagnostic)] == [
            Diagnostic(
                level="warning",
                text="test/model goes on without the pictures of this conversation: this model reads no images",
            )
        ]
        await s.gateway.deliver(run_request("and now", "r2"))
        await s.gateway.deliver(run_request("and you", "r3", model="other/model"))
        await s.gateway.finished("r3")
        assert _pictures(s.models) == [0, 1, 0, 0, 1]
        assert "It cannot be shown to you." in json.dumps(s.models.requests[2]["messages"])


async def test_a_refusal_that_pictures_are_not_the_reason_of_is_told(stage: OpenStage) -> None:
    refused = Refuse(400, {"message": "bad thing", "code": "upstream_refused"})
    async with stage(Answer([Call("read", {"path": "a.png"})]), refused, refused, say("fine")) as s:
        (s.directory / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 40)
        await s.gateway.deliver(run_request("look", "r1"))
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.FAILED
        await s.gateway.deliver(run_request("again", "r2"))
        await s.gateway.finished("r2")
        assert _pictures(s.models) == [0, 1, 0, 1]


async def test_a_run_that_is_stopped_while_it_tries_without_pictures_takes_none_away(stage: OpenStage) -> None:
    look, hold = Answer([Call("read", {"path": "a.png"})]), Hold()
    async with stage(look, NO_PICTURES, Answer([hold]), say("fine")) as s:
        (s.directory / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 40)
        await s.gateway.deliver(run_request("look", "r1"))
        await hold.reached.wait()
        await s.gateway.send(Stop(run_id="r1"))
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.STOPPED
        await s.gateway.deliver(run_request("again", "r2"))
        await s.gateway.finished("r2")
        assert _pictures(s.models) == [0, 1, 0, 1]


async def test_a_file_of_the_office_is_sent(stage: OpenStage) -> None:
    async with stage(Answer([Call("attach", {"path": "scratch/r.csv", "title": "Report"})]), say("Sent.")) as s:
        (s.directory / "scratch" / "r.csv").write_bytes(b"a,b\n" * 1_000_000)
        await s.gateway.deliver(run_request())
        await s.gateway.finished("r1")
        upload = next(o for o in s.gateway.operations("r1") if isinstance(o, Upload))
        assert (upload.name, upload.title, upload.media_type) == ("r.csv", "Report", "text/csv")
        assert s.gateway.blobs == {upload.blob_id: b"a,b\n" * 1_000_000}


@pytest.mark.parametrize("path", ["../../secret", "link", "dir/secret", "/etc/passwd", "scratch"])
async def test_what_lies_outside_the_office_is_never_sent(stage: OpenStage, path: str) -> None:
    async with stage(Answer([Call("attach", {"path": path})]), say("No.")) as s:
        (s.root / "secret").write_text("of another office")
        (s.directory / "link").symlink_to(s.root / "secret")
        (s.directory / "dir").symlink_to(s.root)
        await s.gateway.deliver(run_request())
        await s.gateway.finished("r1")
        assert s.gateway.blobs == {}
        assert [o.state for o in s.gateway.operations("r1") if isinstance(o, ToolStatus)] == ["running", "failed"]


async def test_a_sandbox_that_is_not_there_is_told_once_to_people_and_each_time_to_the_model(
    tmp_path: Path,
) -> None:
    calls = Answer([Call("bash", {"command": "a"}, "a", 0), Call("bash", {"command": "b"}, "b", 1)])
    async with ModelsPeer(calls, say("No sandbox.")) as models, GatewayPeer(ADDRESS.key) as gateway:
        async with serving(tmp_path, gateway.url, models.url, _no_sandbox):
            await gateway.until(lambda: gateway.connected)
            await gateway.deliver(run_request())
            assert (await gateway.finished("r1")).outcome is RunOutcome.COMPLETED
        warnings = [o for o in gateway.operations("r1") if isinstance(o, Diagnostic)]
        assert warnings == [
            Diagnostic(level="warning", text="The sandbox is not there, so no command can run: nobody listens")
        ]
        results = [m["content"] for m in models.requests[1]["messages"] if m["role"] == "tool"]
        assert results == ["nobody listens", "nobody listens"]


def _no_sandbox() -> StartingExecutor:
    raise ExecutorUnavailable("nobody listens")


async def test_a_mode_that_this_build_lacks_is_named(stage: OpenStage) -> None:
    async with stage(mode="cloudflare:worker") as s:
        await s.gateway.deliver(run_request())
        finished = await s.gateway.finished("r1")
        assert finished.outcome is RunOutcome.FAILED
        assert finished.detail == (
            "The sandbox mode cloudflare:worker is not available in this version of mikan. "
            "An admin can set spec.sandbox.mode of this office to image:<image>."
        )


async def test_a_call_that_keeps_failing_is_refused_and_then_ends_the_run(stage: OpenStage) -> None:
    again = [Answer([Call("bash", {"command": "exit 7"}, f"c{number}")]) for number in range(7)]
    async with stage(*again) as s:
        await s.gateway.deliver(run_request())
        finished = await s.gateway.finished("r1")
        assert finished.outcome is RunOutcome.FAILED
        results = [m for m in await s.session() if isinstance(m, ToolResultMessage)]
        assert [m.text.startswith("Not carried out: this very call has failed 3 times.") for m in results] == [
            *[False] * 3,
            *[True] * 3,
            False,
        ]
        assert results[-1].details == {"synthesised": True}
        (told,) = [o for o in s.gateway.operations("r1") if isinstance(o, Diagnostic)]
        assert told.text == (
            "Stopped: the call of bash failed 3 times and was still repeated. Say how to go on, or choose another "
            "model with /model."
        )


async def test_another_model_and_thinking_level_are_noted_in_the_session(stage: OpenStage) -> None:
    async with stage(say("one"), say("two"), say("three")) as s:
        other = Llm(model="other/model", thinking_level=ThinkingLevel.HIGH)
        await s.gateway.deliver(run_request("first", "r1"))
        await s.gateway.deliver(run_request("second", "r2").model_copy(update={"llm": other}))
        await s.gateway.deliver(run_request("third", "r3").model_copy(update={"llm": other}))
        await s.gateway.finished("r3")
        assert [entry.type for entry in await recorded_entries(s.office)] == [
            *["message"] * 2,
            "model_change",
            "thinking_level_change",
            *["message"] * 4,
        ]
        assert s.models.requests[2]["reasoning_effort"] == "high"
