"""One task, a named profile, an isolated run, one result."""

import json
from typing import Any

import pytest

from agent_peers.models import Answer, Call, Hold, Refuse, Text, say
from agent_peers.office import run_request
from mikan_agent.messages import ToolResultMessage
from mikan_api.responder import Respond, RunFinished, RunOutcome, RunStarted, ToolStatus, Usage
from mikan_api.settings import Budgets
from mikan_api.wire import Stop

from .conftest import OpenStage, Stage

TASK = {"profile": "worker", "task": "Count the files.", "label": "counting"}


def delegate(number: int = 1, index: int = 0, **changes: Any) -> Call:
    return Call("subagent", TASK | changes, f"s{number}", index)


async def result_of(stage: Stage) -> ToolResultMessage:
    (result,) = [m for m in await stage.session() if isinstance(m, ToolResultMessage)]
    return result


async def test_a_task_is_done_apart_and_only_its_result_comes_back(stage: OpenStage) -> None:
    look = Answer([Call("bash", {"command": "echo 3", "label": "looking"}, "b1")])
    async with stage(Answer([delegate()]), look, say("There are 3."), say("Three.")) as s:
        await s.gateway.deliver(run_request("secret question"))
        finished = await s.gateway.finished("r1")
        assert s.gateway.operations("r1") == [
            RunStarted(),
            ToolStatus(call_id="s1", label="counting", state="running"),
            ToolStatus(call_id="s1", label="counting: looking", state="running"),
            ToolStatus(call_id="s1", label="counting", state="done"),
            Respond(text="Three."),
            finished,
        ]
        assert finished == RunFinished(
            outcome=RunOutcome.COMPLETED,
            usage=Usage(input_tokens=40, output_tokens=20, cost_usd=0.004, model_calls=4),
        )
        first = s.models.requests[1]
        assert [m["role"] for m in first["messages"]] == ["system", "user"]
        assert first["messages"][1]["content"] == "Count the files."
        assert "secret question" not in json.dumps(first)
        assert [tool["function"]["name"] for tool in first["tools"]] == ["read", "bash", "edit", "write", "history"]
        result = await result_of(s)
        assert (result.text, result.is_error) == ("There are 3.", False)
        assert isinstance(result.details, dict)
        assert {name: result.details[name] for name in ("status", "turns", "tokens", "costUsd", "model")} == {
            "status": "completed",
            "turns": 2,
            "tokens": 30,
            "costUsd": 0.002,
            "model": "test/model",
        }


async def test_no_session_file_is_made(stage: OpenStage) -> None:
    async with stage(Answer([delegate()]), say("3"), say("Three.")) as s:
        await s.gateway.deliver(run_request())
        await s.gateway.finished("r1")
        assert [m.role for m in await s.session()] == ["user", "assistant", "toolResult", "assistant"]


async def test_with_a_schema_the_answer_is_exactly_json(stage: OpenStage) -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    async with stage(Answer([delegate(outputSchema=schema)]), say('{"count": 3}'), say("Three.")) as s:
        await s.gateway.deliver(run_request())
        await s.gateway.finished("r1")
        assert (await result_of(s)).text == '{"count": 3}'
        assert json.dumps(schema) in s.models.requests[1]["messages"][0]["content"]


@pytest.mark.parametrize(
    ("changes", "answers", "text"),
    [
        (
            {"outputSchema": {"type": "integer"}},
            [say("It is 3.")],
            "The subagent ended with invalid_output: the answer is not JSON alone: Expecting value: line 1 column 1 "
            "(char 0)\n\nWhat it had said so far:\nIt is 3.",
        ),
        (
            {"maxTurns": 1},
            [Answer([Text("Looking."), Call("bash", {"command": "true"}, "b1")])],
            "The subagent ended with budget_exceeded: model calls: 1 allowed\n\nWhat it had said so far:\nLooking.",
        ),
        (
            {},
            [Refuse(404, {"message": "no model test/model", "code": "model_not_found"})],
            "The subagent ended with failed: no model test/model",
        ),
        (
            {"profile": "nobody"},
            [],
            "The subagent ended with failed: there is no profile 'nobody'. There are:\n- worker:",
        ),
        ({"task": " "}, [], "The subagent ended with failed: the task is empty"),
        (
            {"tools": ["attach"]},
            [],
            "The subagent ended with failed: There is no such tool for subagents here: attach. It may have: read,",
        ),
        (
            {"profile": "analysis-only", "tools": ["bash"]},
            [],
            "The subagent ended with failed: The profile analysis-only does not grant: bash. It may have: read,",
        ),
        ({"outputSchema": {"type": "x"}}, [], "The subagent ended with failed: the schema is not valid at $.type"),
    ],
)
async def test_every_failure_is_a_result_that_says_how(
    stage: OpenStage, changes: dict[str, Any], answers: list[Answer | Refuse], text: str
) -> None:
    async with stage(Answer([delegate(**changes)]), *answers, say("Done.")) as s:
        await s.gateway.deliver(run_request())
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.COMPLETED
        result = await result_of(s)
        assert result.text.startswith(text)
        assert result.is_error


async def test_a_subagent_can_not_start_another(stage: OpenStage) -> None:
    nested = Answer([Call("subagent", TASK, "n1")])
    async with stage(Answer([delegate()]), nested, say("I could not."), say("Done.")) as s:
        await s.gateway.deliver(run_request())
        await s.gateway.finished("r1")
        told = s.models.requests[2]["messages"][-1]
        assert told["content"] == "There is no tool 'subagent'. There are: read, bash, edit, write, history."


async def test_a_subagents_calls_count_for_its_parent(stage: OpenStage) -> None:
    look = Answer([Call("bash", {"command": "true"}, "b1")])
    budgets = Budgets(model_calls=2)
    async with stage(Answer([delegate()]), look, look, look) as s:
        await s.gateway.deliver(run_request(budgets=budgets))
        finished = await s.gateway.finished("r1")
        assert (finished.outcome, finished.usage.model_calls) == (RunOutcome.BUDGET_EXCEEDED, 2)


async def test_stop_ends_subagents_too(stage: OpenStage) -> None:
    hold = Hold()
    async with stage(Answer([delegate()]), Answer([Text("working"), hold])) as s:
        await s.gateway.deliver(run_request())
        await hold.reached.wait()
        await s.gateway.send(Stop(run_id="r1"))
        finished = await s.gateway.finished("r1")
        assert finished.outcome is RunOutcome.STOPPED
        assert (await result_of(s)).details == {"synthesised": True}


async def test_several_run_side_by_side_and_answer_in_order(stage: OpenStage) -> None:
    first, second = Hold(), Hold()
    calls = Answer([delegate(1, 0), delegate(2, 1)])
    async with stage(calls, Answer([first, Text("one")]), Answer([second, Text("two")]), say("Both.")) as s:
        await s.gateway.deliver(run_request())
        await first.reached.wait()
        await second.reached.wait()
        second.release()
        first.release()
        await s.gateway.finished("r1")
        results = [m for m in await s.session() if isinstance(m, ToolResultMessage)]
        assert [m.tool_call_id for m in results] == ["s1", "s2"]
        assert sorted(m.text for m in results) == ["one", "two"]


async def test_profiles_of_the_workspace_are_read_anew(stage: OpenStage) -> None:
    async with stage(Answer([delegate(profile="clerk")]), say("Filed."), say("Done.")) as s:
        agents = s.root / "shared" / "agents"
        agents.mkdir(parents=True, exist_ok=True)
        (agents / "clerk.md").write_text(
            "---\ndescription: files things\nmodel: other/small\ntools: [read]\n---\nFile it.\n"
        )
        await s.gateway.deliver(run_request())
        await s.gateway.finished("r1")
        asked = s.models.requests[1]
        assert asked["model"] == "other/small"
        assert "File it." in asked["messages"][0]["content"]
        assert [tool["function"]["name"] for tool in asked["tools"]] == ["read"]
