"""The built-in script, turn by turn."""

from typing import Any

import pytest

from mikan_gateway.models.chat import ChatRequest
from mikan_gateway.models.scripted.player import CLOSING, PlannedCall, Turn, plan_turn
from mikan_gateway.models.scripted.script import Script, read_scripts
from models_service import tools

OFFERED = tools("bash", "read", "write", "edit", "attach", "event")


@pytest.fixture(scope="module")
def demo() -> Script:
    return read_scripts(None)["demo"]


def ask(*messages: dict[str, Any] | str, offered: list[dict[str, Any]] = OFFERED) -> ChatRequest:
    built = [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
    return ChatRequest("scripted", "demo", built, options={"tools": offered})


def called() -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}


def result(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c", "content": text}


def bash(command: str) -> PlannedCall:
    return PlannedCall("bash", {"command": command})


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ("run: env | grep TOKEN", (bash("env | grep TOKEN"),)),
        ("<@ada>: please run: ls -la  ", (bash("ls -la"),)),
        ("Run `cat a b` for me", (bash("cat a b"),)),
        ("run in parallel: sleep 1 || id", (bash("sleep 1"), bash("id"))),
        ("loop 3: date", (bash("date"),)),
        ("sleep 600", (bash("sleep 600"),)),
        ("run: echo {result} {{", (bash("echo {result} {{"),)),
        ("write a/b.txt: one\ntwo", (PlannedCall("write", {"path": "a/b.txt", "content": "one\ntwo"}),)),
        ("<@ada>: write x: run: id", (PlannedCall("write", {"path": "x", "content": "run: id"}),)),
        ("read a.txt", (PlannedCall("read", {"path": "a.txt"}),)),
        ("edit a.txt: x => y", (PlannedCall("edit", {"path": "a.txt", "oldText": "x", "newText": "y"}),)),
        ("attach a.txt", (PlannedCall("attach", {"path": "a.txt"}),)),
        (
            "remind in 90 s: run: date\n",
            (
                PlannedCall(
                    "event",
                    {"action": "create", "name": "reminder-90", "text": "run: date", "inSeconds": "90"},
                ),
            ),
        ),
        ("events", (PlannedCall("event", {"action": "list"}),)),
    ],
)
def test_a_command_becomes_tool_calls(demo: Script, message: str, calls: tuple[PlannedCall, ...]) -> None:
    assert plan_turn(demo, ask(message)) == Turn(calls=calls)


def test_the_result_is_answered_with(demo: Script) -> None:
    turn = plan_turn(demo, ask("run: id", called(), result("uid=10001 {command}")))

    assert turn == Turn(text="(scripted model) `id` printed:\n\n```\nuid=10001 {command}\n```")


def test_a_loop_calls_as_often_as_asked(demo: Script) -> None:
    turns = [called(), result("1"), called(), result("2")]

    assert plan_turn(demo, ask("loop 2: date", *turns[:2])).calls == (bash("date"),)
    assert plan_turn(demo, ask("loop 2: date", *turns)).text.startswith("(scripted model) That ran 2 times.")


def test_both_results_of_a_parallel_call_are_told(demo: Script) -> None:
    turn = plan_turn(demo, ask("run in parallel: a || b", called(), result("A"), result("B")))

    assert turn.text == "(scripted model) Both have run:\n\n```\nA\nB\n```"


def test_only_what_came_after_the_last_question_counts(demo: Script) -> None:
    history = ["run: id", called(), result("old"), {"role": "assistant", "content": "done"}]

    assert plan_turn(demo, ask(*history, "run: pwd")).calls == (bash("pwd"),)


def test_pictures_after_a_result_are_no_new_question(demo: Script) -> None:
    pictures = {
        "role": "user",
        "content": [{"type": "text", "text": "Pictures:"}, {"type": "image_url", "image_url": {}}],
    }

    assert plan_turn(demo, ask("read a.png", called(), result("(picture)"), pictures)).text.startswith(
        "(scripted model) `a.png` holds:"
    )


def test_anything_else_gets_help(demo: Script) -> None:
    text = plan_turn(demo, ask("hello, who are you?")).text

    assert text.startswith("(scripted model) Hello! I am the scripted model")
    assert "an admin adds a provider with its key" in text


def test_a_tool_that_is_not_offered_is_not_called(demo: Script) -> None:
    turn = plan_turn(demo, ask("read a.txt", offered=tools("bash")))

    assert turn == Turn(text="(scripted model) I would call the tool read, but it is not offered here.")


def test_after_its_last_step_a_script_closes(demo: Script) -> None:
    assert plan_turn(demo, ask("run: id", called(), result("x"), called(), result("y"))) == Turn(text=CLOSING)


def test_errors_cuts_delays_and_lengths_are_as_asked(demo: Script) -> None:
    error = plan_turn(demo, ask("error 429")).error
    assert error is not None
    assert (error.status, error.code) == (429, "scripted_error")
    assert plan_turn(demo, ask("cut: abc")) == Turn(text="(scripted model) abc", cut=True)
    assert plan_turn(demo, ask("slow 20: abc")) == Turn(text="(scripted model) abc", delay_seconds=0.02)
    assert plan_turn(demo, ask("bench: tokens 500")) == Turn(text="(scripted model) ", tokens=500)
