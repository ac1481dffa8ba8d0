"""Killed at every named place: each message is answered exactly once, or its cut is told exactly once."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from durability_agent import REPORT
from durability_world import KILLED, DurableWorld
from mikan_api.kill_points import Step, kill_points
from mikan_gateway.rendering.renderer import CUT_OFF
from postgres import postgres_server

Replies = Mapping[str, Sequence[Sequence[str]]]
"""Message id -> what may stand below it, one of several."""
Scene = Callable[[DurableWorld], Awaitable[Replies]]


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
    return {
        "m1": [["You said: hello"]],
        "m2": [["A fresh session starts with your next message. The old one is kept."]],
    }


async def lose_the_agent(world: DurableWorld) -> Replies:
    """A run whose pod is gone is cut off before there is another."""
    await world.chat.say("m1", "for-ever")
    await world.wake()
    await world.chat.drafted("on and on")
    await world.lose_the_agent()
    await world.chat.answered("m1", CUT_OFF)
    world.agent.start()
    return {"m1": [["on and on"]]}


SCENES: Mapping[Step, Scene] = {
    Step.LOST_COMMIT: lose_the_agent,
    Step.QUEUED_STOP_COMMIT: stop_what_waits,
    Step.STOP_COMMIT: stop_what_runs,
    Step.STOP_SEND: stop_what_runs,
    Step.REPLY_COMMIT: stop_nothing,
    Step.FILE_DISCARD: attach,
    Step.BLOB_ACKNOWLEDGE: attach,
    Step.REPLY_COMMIT: begin_afresh,
    Step.RESET_COMMIT: begin_afresh,
    Step.RESET_SEND: begin_afresh,
    Step.RESET_DONE_COMMIT: begin_afresh,
    Step.SESSION_RESET: begin_afresh,
    Step.ANSWER_SEND: begin_afresh,
    Step.PLATFORM_EDIT: slowly,
    Step.PLATFORM_DELETE: silently,
    Step.PLATFORM_UPLOAD: attach,
    Step.UPLOAD_SEND: attach,
    Step.TOOL_RUN: attach,
    Step.TEXT_SEND: slowly,
}


SCENELESS = {
    Step.LEASE_WRITE,
    Step.OFFICE_CHANGE,
    Step.FILE_SWEEP,
    Step.LOG_WRITTEN_COMMIT,
    Step.PRUNE_COMMIT,
    Step.TORN_TAIL,
    Step.SESSION_MIGRATE,
    Step.SESSION_ARCHIVE,
}


def places(process: str) -> list[str]:
    """All that the scenes reach."""
    steps = {place: Step(place.rpartition(".")[0]) for place in kill_points(process)}
    return [p for p, step in steps.items() if step not in SCENELESS and not step.startswith("gateway.telegram.")]


async def told_once(world: DurableWorld, expected: Replies) -> int:
    """The verdict: what stands below each message; how many runs were cut off."""
    chat = world.chat
    await world.killed()
    await chat.say("last", "goodbye")
    await chat.answered("last", "You said: goodbye")
    cut = 0
    for message_id, allowed in {**expected, "last": [["You said: goodbye"]]}.items():
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


@pytest.mark.parametrize("point", places("gateway"))
async def test_a_gateway_killed_there_loses_and_doubles_nothing(
    new_world: Callable[..., DurableWorld], point: str
) -> None:
    scene = SCENES.get(Step(point.rpartition(".")[0]), hello)
    async with new_world().running(point) as world:
        expected = await scene(world)

        assert await told_once(world, expected) == (1 if scene is lose_the_agent else 0)
        assert world.deaths == [KILLED], world.log


@pytest.mark.parametrize("point", places("agent"))
async def test_an_agent_killed_there_answers_or_says_once_that_it_was_cut(
    new_world: Callable[..., DurableWorld], point: str
) -> None:
    scene = SCENES.get(Step(point.rpartition(".")[0]), hello)
    async with new_world().running(point) as world:
        expected = await scene(world)

        assert await told_once(world, expected) <= 1
        assert world.deaths == [KILLED], world.log


@pytest.mark.parametrize(
    "step", [Step.MESSAGE_COMMIT, Step.AGENT_COMMIT, Step.REPORT_COMMIT, Step.SENT_COMMIT, Step.SHOWN_COMMIT]
)
@pytest.mark.parametrize("side", ["before", "after"])
async def test_postgres_keeps_the_same_promises(new_world: Callable[..., DurableWorld], step: Step, side: str) -> None:
    async with new_world(postgres_server().create_database()).running(f"{step}.{side}") as world:
        expected = await hello(world)

        assert await told_once(world, expected) == 0
        assert world.deaths == [KILLED], world.log
