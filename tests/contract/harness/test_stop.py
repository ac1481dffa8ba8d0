"""A run that is cut short, at whatever point: at once, with nothing left running and a session that goes on."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from agent_peers.models import Answer, Call, Hold, Refuse, Text, say
from agent_peers.office import run_request
from mikan_agent.harness.toolbox import Toolbox
from mikan_agent.messages import AssistantMessage, ToolResultMessage
from mikan_api.responder import Respond, RunFinished, RunOutcome, RunStarted, ToolStatus
from mikan_api.session_keys import parse_session_key
from mikan_api.wire import Drain, Reset, Stop

from .conftest import OpenStage, Stage

BOUND = 2.0
"""Seconds within which a stop has ended everything (architecture section 7, behaviour "stop")."""


def processes_with(mark: str) -> list[str]:
    """Command lines of this machine that hold a mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if mark in line:
            found.append(line)
    return found


async def running(stage: Stage) -> None:
    """Wait until a tool call is under way."""
    await stage.gateway.until(lambda: any(isinstance(o, ToolStatus) for o in stage.gateway.operations("r1")))


async def test_stopping_a_stream_keeps_what_was_said(stage: OpenStage) -> None:
    async with stage(Answer([Text("Half an "), hold := Hold()]), say("Whole.")) as s:
        await s.gateway.deliver(run_request())
        await hold.reached.wait()
        await s.gateway.until(lambda: s.gateway.seen.texts.get("r1") == "Half an ")
        began = time.monotonic()
        await s.gateway.send(Stop(run_id="r1"))
        finished = await s.gateway.finished("r1")
        assert time.monotonic() - began < BOUND
        assert finished.outcome is RunOutcome.STOPPED
        assert s.gateway.operations("r1")[:2] == [RunStarted(), Respond(text="Half an")]
        partial = (await s.session())[-1]
        assert isinstance(partial, AssistantMessage)
        assert (partial.text, partial.stop_reason) == ("Half an ", "aborted")
        await s.gateway.deliver(run_request("go on", "r2"))
        assert (await s.gateway.finished("r2")).outcome is RunOutcome.COMPLETED


@pytest.mark.parametrize("prefix", ["", "setsid --wait ", "setsid setsid --wait "])
async def test_stopping_a_command_ends_all_of_it(stage: OpenStage, prefix: str) -> None:
    mark = f"6{time.time_ns() % 10**9:09}"
    calls = [Call("bash", {"command": f"{prefix}sleep {mark}; true"}, "a", 0), Call("bash", {"command": "id"}, "b", 1)]
    async with stage(Answer(calls), say("Back.")) as s:
        await s.gateway.deliver(run_request())
        await running(s)
        while not processes_with(f"sleep {mark}"):  # noqa: ASYNC110  the processes of another party
            await asyncio.sleep(0.01)
        began = time.monotonic()
        await s.gateway.send(Stop(run_id="r1"))
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.STOPPED
        assert time.monotonic() - began < BOUND
        assert processes_with(f"sleep {mark}") == []
        results = [m for m in await s.session() if isinstance(m, ToolResultMessage)]
        assert [(r.tool_call_id, r.is_error) for r in results] == [("a", True), ("b", True)]
        await s.gateway.deliver(run_request("again", "r2"))
        assert (await s.gateway.finished("r2")).outcome is RunOutcome.COMPLETED
        roles = [m["role"] for m in s.models.requests[-1]["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "tool", "user"]


async def test_stopping_the_wait_before_a_retry(stage: OpenStage) -> None:
    busy = Refuse(429, {"message": "busy"}, {"retry-after": "0.9"})
    async with stage(busy, say("never")) as s:
        await s.gateway.deliver(run_request())
        await s.gateway.until(lambda: len(s.gateway.operations("r1")) == 2)
        await s.gateway.send(Stop(run_id="r1"))
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.STOPPED
        assert len(s.models.requests) == 1


async def test_stopping_a_run_that_waits_ends_it_at_once_and_leaves_the_other(stage: OpenStage) -> None:
    async with stage(Answer([hold := Hold(), Text("first")])) as s:
        await s.gateway.deliver(run_request("one", "r1"))
        await hold.reached.wait()
        await s.gateway.deliver(run_request("two", "r2"))
        await s.gateway.send(Stop(run_id="r2"))
        await s.gateway.finished("r2")
        assert s.gateway.operations("r2") == [RunFinished(outcome=RunOutcome.STOPPED)]
        hold.release()
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.COMPLETED


async def test_stopping_what_is_over_or_unknown_is_harmless(stage: OpenStage) -> None:
    async with stage(say("one"), say("two")) as s:
        await s.gateway.deliver(run_request("one", "r1"))
        await s.gateway.finished("r1")
        await s.gateway.send(Stop(run_id="r1"))
        await s.gateway.send(Stop(run_id="unheard-of"))
        await s.gateway.deliver(run_request("two", "r2"))
        assert (await s.gateway.finished("r2")).outcome is RunOutcome.COMPLETED


async def test_a_drain_hands_back_what_has_not_begun_and_ends_after_what_has(stage: OpenStage) -> None:
    async with stage(Answer([Text("a"), hold := Hold(), Text("b")])) as s:
        await s.gateway.deliver(run_request("one", "r1"))
        await hold.reached.wait()
        await s.gateway.deliver(run_request("two", "r2"))
        await s.gateway.send(Drain())
        assert await s.gateway.finished("r2") == RunFinished(outcome=RunOutcome.HANDED_BACK)
        await s.gateway.deliver(run_request("three", "r3"))
        assert await s.gateway.finished("r3") == RunFinished(outcome=RunOutcome.HANDED_BACK)
        hold.release()
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.COMPLETED
        await s.gateway.until(lambda: not s.gateway.connected)
        assert len(s.models.requests) == 1


async def test_keys_run_side_by_side_and_one_key_in_order(stage: OpenStage) -> None:
    async with stage(Answer([hold := Hold(), Text("slow")]), say("quick"), say("after")) as s:
        await s.gateway.deliver(run_request("one", "r1", session_key="room:t1"))
        await hold.reached.wait()
        await s.gateway.deliver(run_request("after", "r2", session_key="room:t1"))
        await s.gateway.deliver(run_request("aside", "r3", session_key="room:t2"))
        assert (await s.gateway.finished("r3")).outcome is RunOutcome.COMPLETED
        assert s.gateway.operations("r2") == []
        hold.release()
        await s.gateway.finished("r2")
        ends = [run for run, o in s.gateway.seen.operations if isinstance(o, RunFinished)]
        assert ends == ["r3", "r1", "r2"]


async def test_a_new_thread_waits_until_its_parents_run_is_over(stage: OpenStage) -> None:
    async with stage(Answer([hold := Hold(), Text("parent")]), say("thread")) as s:
        await s.gateway.deliver(run_request("one", "r1"))
        await hold.reached.wait()
        await s.gateway.deliver(run_request("two", "r2", session_key="room:t1"))
        await asyncio.sleep(0.05)
        assert len(s.models.requests) == 1
        hold.release()
        await s.gateway.finished("r2")
        assert [run for run, o in s.gateway.seen.operations if isinstance(o, RunStarted)] == ["r1", "r2"]


async def test_a_reset_stops_the_run_and_the_next_one_begins_afresh(stage: OpenStage) -> None:
    async with stage(Answer([Text("x"), hold := Hold()]), say("fresh")) as s:
        await s.gateway.deliver(run_request("one", "r1"))
        await hold.reached.wait()
        reset = Reset(id="q1", session_key=parse_session_key("room"))
        await s.gateway.send(reset)
        await s.gateway.until(lambda: bool(s.gateway.seen.answers))
        await s.gateway.send(reset)
        await s.gateway.until(lambda: len(s.gateway.seen.answers) == 2)
        first, second = s.gateway.seen.answers
        assert first == second
        assert first.error is None
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.STOPPED
        await s.gateway.deliver(run_request("two", "r2"))
        await s.gateway.finished("r2")
        assert [m["content"] for m in s.models.requests[-1]["messages"][1:]] == ["two"]
        assert len(os.listdir(s.office.sessions)) == 3  # two sessions, and the pointer to the second


async def test_a_run_that_waited_for_something_cancelled_fails_and_the_next_one_runs(
    stage: OpenStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled(*_: object) -> None:
        raise asyncio.CancelledError

    async with stage(Answer([Call("bash", {"command": "true"})]), say("Back.")) as s:
        with monkeypatch.context() as broken:
            broken.setattr(Toolbox, "run", cancelled)
            await s.gateway.deliver(run_request())
            assert (await s.gateway.finished("r1")).outcome is RunOutcome.FAILED
        await s.gateway.deliver(run_request("again", "r2"))
        assert (await s.gateway.finished("r2")).outcome is RunOutcome.COMPLETED
