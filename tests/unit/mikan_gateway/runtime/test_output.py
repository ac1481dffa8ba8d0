"""What was committed is shown, whatever happens in between."""

import pytest

from gateway_world import World
from mikan_api.responder import Diagnostic, Respond, RunFinished, RunOutcome, RunStarted
from mikan_gateway.exceptions import PlatformUnavailable
from mikan_gateway.runtime.output import FAULT_TRIES, MISSING
from mikan_gateway.storage.operations import outputs

_DONE = RunFinished(outcome=RunOutcome.COMPLETED)


async def _answer(world: World, *, session: str = "C1", message: str = "m1") -> str:
    run = await world.ask(message, session)
    link = await world.connect()
    world.take(link)
    await world.report(link, run, RunStarted(), Respond(text="hi"), _DONE)
    return run


async def test_what_was_not_shown_before_a_crash_is_shown_after_it(world: World) -> None:
    world.office()
    world.output.gate.clear()
    run = await _answer(world)
    await world.stop()
    world.output.gate.set()
    await world.start()
    assert await world.output.until(3) == [(run, "run_started"), (run, "respond"), (run, "run_finished")]


async def test_what_was_shown_is_not_shown_again(world: World) -> None:
    world.office()
    run = await _answer(world)
    await world.output.until(3)
    await world.restart()
    await world.settle()
    assert world.output.of(run) == ["run_started", "respond", "run_finished"]


async def test_shown_operations_are_forgotten_a_moment_later(world: World) -> None:
    world.office()
    await _answer(world)
    await world.output.until(3)
    await world.settle()
    assert len(await world.database.read(outputs)) == 3
    world.clock.advance(0.25)
    await world.settle()
    assert await world.database.read(outputs) == []


async def test_a_platform_that_fails_is_tried_again_and_order_is_kept(world: World) -> None:
    world.office()
    world.output.failures = [PlatformUnavailable("down") for _ in range(20)]
    run = await _answer(world)
    for _ in range(20):
        await world.settle()
        assert world.output.seen == []
        world.clock.advance(30)
    assert await world.output.until(3) == [(run, "run_started"), (run, "respond"), (run, "run_finished")]


async def test_a_fault_of_ours_is_given_up_so_that_the_rest_is_shown(world: World) -> None:
    world.office()
    world.output.failures = [ValueError("bug") for _ in range(FAULT_TRIES)]
    run = await _answer(world)
    for _ in range(FAULT_TRIES):
        await world.settle()
        world.clock.advance(30)
    assert await world.output.until(3) == [(run, "diagnostic"), (run, "respond"), (run, "run_finished")]
    assert world.output.operations[0] == Diagnostic(level="error", text=MISSING)
    assert world.dropped == 1


async def test_several_faults_of_ours_in_one_run_are_told_once(world: World) -> None:
    world.office()
    world.output.broken = {"run_started", "respond"}
    run = await _answer(world)
    while "run_finished" not in world.output.of(run):
        await world.settle()
        world.clock.advance(30)
    assert world.output.of(run) == ["diagnostic", "run_finished"]
    assert world.dropped == 2


async def test_what_cannot_be_said_either_is_left_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.office()
    world.output.failures = [ValueError("bug") for _ in range(FAULT_TRIES + 1)]
    run = await _answer(world)
    for _ in range(FAULT_TRIES):
        await world.settle()
        world.clock.advance(30)
    assert await world.output.until(2) == [(run, "respond"), (run, "run_finished")]
    assert "it could not be said that something is missing" in caplog.messages


async def test_the_answers_of_a_session_keep_their_order(world: World) -> None:
    world.office()
    world.output.failures = [PlatformUnavailable("down")]
    first, second = await world.ask("m1"), await world.ask("m2")
    link = await world.connect()
    for run in (first, second):
        world.take(link)
        await world.report(link, run, RunStarted(), Respond(text="hi"), _DONE)
    await world.settle()
    assert world.output.seen == []
    world.clock.advance(0.5)
    seen = await world.output.until(6)
    assert [run for run, _ in seen] == [first] * 3 + [second] * 3


async def test_one_session_that_cannot_be_shown_holds_up_no_other(world: World) -> None:
    world.office()
    world.output.failures = [PlatformUnavailable("down")]
    first, second = await world.ask("m1", "C1"), await world.ask("m2", "C1:t2")
    link = await world.connect()
    world.take(link)
    await world.report(link, first, RunStarted())
    await world.settle()
    await world.report(link, second, RunStarted())
    assert await world.output.until(1) == [(second, "run_started")]
    world.clock.advance(0.5)
    assert (await world.output.until(2))[1] == (first, "run_started")
