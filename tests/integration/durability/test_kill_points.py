"""Killed at every place that is named: each message is answered exactly once, or its cut is told exactly once.

Every place of gateway and agent has a test here but for the calls of Telegram, which are in
``tests/integration/telegram``. A place that no scene reaches fails its test: the process must have died by SIGKILL.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from agent_peers.office import workspace_in
from durability_agent import REPORT
from durability_events import fire, notify, remind
from durability_fixtures import NewWorld
from durability_gateway import PRUNE_VARIABLE
from durability_world import DurableWorld
from kill_places import AGENT, GATEWAY, step_of
from mikan_api.kill_points import Step
from mikan_api.layout import Office
from mikan_gateway.rendering.renderer import CUT_OFF
from postgres import postgres_server
from supervised import KILLED

Replies = Mapping[str, Sequence[Sequence[str]]]
"""Message id -> what may stand below it, one of several."""
Scene = Callable[[DurableWorld], Awaitable[Replies]]
FRESH = "A fresh session starts with your next message. The old one is kept."


async def hello(world: DurableWorld) -> Replies:
    chat = world.chat
    await chat.say("m1", "hello")
    await world.wake()
    await chat.say("m2", "hello again", file=b"notes")
    await chat.answered("m2", "You said: hello again")
    return {"m1": [["You said: hello"]], "m2": [["You said: hello again"]]}


async def slowly(world: DurableWorld) -> Replies:
    await world.chat.say("m1", "slowly now")
    await world.wake()
    await world.chat.answered("m1", "You said: slowly now")
    return {"m1": [["You said: slowly now"]]}


async def silently(world: DurableWorld) -> Replies:
    """An answer without text takes the placeholder away."""
    await world.chat.say("m1", "silently")
    await world.wake()
    return {"m1": [[]]}


async def attach(world: DurableWorld) -> Replies:
    await world.chat.say("m1", "attach it")
    await world.wake()
    await world.chat.answered("m1", "done", REPORT)
    return {"m1": [[REPORT, "done"], ["done", REPORT]]}


async def stop_nothing(world: DurableWorld) -> Replies:
    await world.chat.say("m1", "hello")
    await world.wake()
    await world.chat.answered("m1", "You said: hello")
    await world.chat.say("m2", "stop")
    return {"m1": [["You said: hello"]], "m2": [["Nothing is running here."]]}


async def stop_what_waits(world: DurableWorld) -> Replies:
    await world.chat.say("m1", "hello")
    await world.chat.say("m2", "stop")
    await world.wake()
    return {"m1": [["_(Stopped.)_"]], "m2": [["Stopped."]]}


async def stop_what_runs(world: DurableWorld) -> Replies:
    await world.chat.say("m1", "for-ever")
    await world.wake()
    await world.chat.drafted("on and on")
    await world.chat.say("m2", "stop")
    await world.chat.answered("m1", "on and on")
    return {"m1": [["on and on"], ["on and on\n\n_(Stopped.)_"]], "m2": [["Stopped."]]}


async def begin_afresh(world: DurableWorld) -> Replies:
    await world.chat.say("m1", "hello")
    await world.wake()
    await world.chat.answered("m1", "You said: hello")
    await world.chat.say("m2", "/new")
    return {"m1": [["You said: hello"]], "m2": [[FRESH]]}


async def begin_a_thread_afresh(world: DurableWorld) -> Replies:
    await world.chat.say("m1", "hello", thread="t1")
    await world.wake()
    await world.chat.answered("m1", "You said: hello")
    await world.chat.say("m2", "/new", thread="t1")
    await world.chat.say("m3", "hello again", thread="t1")
    await world.chat.answered("m3", "You said: hello again")
    return {"m1": [["You said: hello"]], "m2": [[FRESH]], "m3": [["You said: hello again"]]}


async def choose_a_model(world: DurableWorld) -> Replies:
    await world.chat.say("m1", "hello")
    await world.wake()
    await world.chat.answered("m1", "You said: hello")
    await world.chat.say("m2", "/model upstream/other")
    chosen = "Model: `upstream/other`, thinking off, from the next message on."
    return {"m1": [["You said: hello"]], "m2": [[chosen]]}


async def lose_the_agent(world: DurableWorld) -> Replies:
    """A run whose pod is gone is cut off before there is another."""
    await world.chat.say("m1", "for-ever")
    await world.wake()
    await world.chat.drafted("on and on")
    await world.lose_the_agent()
    await world.chat.answered("m1", CUT_OFF)
    world.agent.start()
    return {"m1": [["on and on"]]}


async def leave_and_come_back(world: DurableWorld) -> Replies:
    """How far the log is written is noted when the agent is gone."""
    await world.chat.say("m1", "hello")
    await world.wake()
    await world.chat.answered("m1", "You said: hello")
    await world.agent.restart()
    return {"m1": [["You said: hello"]]}


async def move_in(world: DurableWorld) -> Replies:
    """The office has a session of an older form, and a log whose last line a crash has cut."""
    await asyncio.to_thread(_move_in, workspace_in(world.root).office(world.address))
    return await hello(world)


def _move_in(office: Office) -> None:
    sessions = Path(office.sessions)
    sessions.mkdir(parents=True)
    header = {"type": "session", "version": 2, "id": "old", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
    (sessions / "old.jsonl").write_text(json.dumps(header) + "\n")
    (sessions / "current").write_text("old.jsonl\n")
    Path(office.log).write_text('{"number": 1, "id"')


SCENES: Mapping[Step, Scene] = {
    Step.OFFICE_CHANGE: choose_a_model,
    Step.FILE_DISCARD: attach,
    Step.BLOB_ACKNOWLEDGE: attach,
    Step.LOG_WRITTEN_COMMIT: leave_and_come_back,
    Step.LOST_COMMIT: lose_the_agent,
    Step.REPLY_COMMIT: stop_nothing,
    Step.QUEUED_STOP_COMMIT: stop_what_waits,
    Step.STOP_COMMIT: stop_what_runs,
    Step.STOP_SEND: stop_what_runs,
    Step.RESET_COMMIT: begin_afresh,
    Step.RESET_SEND: begin_afresh,
    Step.RESET_DONE_COMMIT: begin_afresh,
    Step.PLATFORM_EDIT: slowly,
    Step.PLATFORM_DELETE: silently,
    Step.PLATFORM_UPLOAD: attach,
    Step.TORN_TAIL: move_in,
    Step.SESSION_ARCHIVE: begin_a_thread_afresh,
    Step.SESSION_MIGRATE: move_in,
    Step.SESSION_RESET: begin_afresh,
    Step.ANSWER_SEND: begin_afresh,
    Step.UPLOAD_SEND: attach,
    Step.TOOL_RUN: attach,
    Step.TEXT_SEND: slowly,
    Step.FIRING_COMMIT: fire,
    Step.ANCHOR_COMMIT: fire,
    Step.NOTICE_COMMIT: notify,
    Step.SCHEDULE_WRITE: remind,
    Step.REPLY_SEND: remind,
    Step.REQUEST_SEND: remind,
}
"""How a step is reached; those that are not named are in `hello`."""
ENVIRONMENTS: Mapping[Step, Mapping[str, str]] = {
    Step.LEASE_WRITE: {"MIKAN_LEASE": "1"},
    Step.PRUNE_COMMIT: {PRUNE_VARIABLE: "0.2"},
}


async def told_once(world: DurableWorld, expected: Replies) -> int:
    """The verdict: what stands below each message; how many runs were cut off."""
    chat = world.chat
    await world.killed()
    await chat.say("last", "goodbye")
    await chat.answered("last", "You said: goodbye")
    cut = 0
    for message_id, allowed in {**expected, "last": [["You said: goodbye"]]}.items():
        # A command's answer is shown in the background.
        await chat.until(lambda m=message_id, a=allowed: CUT_OFF in chat.replies(m) or chat.replies(m) in a, message_id)  # type: ignore[misc]
        replies = chat.replies(message_id)
        if CUT_OFF in replies:
            cut += 1
            assert replies.count(CUT_OFF) == 1
            # What was sent before the cut stays above the notice: a file, or the beginning of the answer.
            whole = "".join(text for texts in allowed for text in texts)
            assert all(text in whole for text in replies if text != CUT_OFF), replies
        else:
            assert replies in allowed, world.log
    return cut


@pytest.mark.parametrize("point", GATEWAY)
async def test_a_gateway_killed_there_loses_and_doubles_nothing(new_world: NewWorld, point: str) -> None:
    scene = SCENES.get(step_of(point), hello)
    async with new_world(gateway=ENVIRONMENTS.get(step_of(point))).running(point) as world:
        expected = await scene(world)

        assert await told_once(world, expected) == (1 if scene is lose_the_agent else 0)
        assert world.deaths == [KILLED], world.log


@pytest.mark.parametrize("point", AGENT)
async def test_an_agent_killed_there_answers_or_says_once_that_it_was_cut(new_world: NewWorld, point: str) -> None:
    scene = SCENES.get(step_of(point), hello)
    async with new_world().running(point) as world:
        expected = await scene(world)

        assert await told_once(world, expected) <= 1
        assert world.deaths == [KILLED], world.log


@pytest.mark.parametrize(
    "step", [Step.MESSAGE_COMMIT, Step.AGENT_COMMIT, Step.REPORT_COMMIT, Step.SENT_COMMIT, Step.SHOWN_COMMIT]
)
@pytest.mark.parametrize("side", ["before", "after"])
async def test_postgres_keeps_the_same_promises(new_world: NewWorld, step: Step, side: str) -> None:
    database_url = postgres_server().create_database()
    async with new_world(database_url=database_url).running(f"{step}.{side}") as world:
        expected = await hello(world)

        assert await told_once(world, expected) == 0
        assert world.deaths == [KILLED], world.log
