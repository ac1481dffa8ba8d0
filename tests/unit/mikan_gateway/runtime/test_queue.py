"""Submitting, order, stop and reset."""

import asyncio

from gateway_doubles import inbound, key_of, posted
from gateway_world import World
from mikan_api.messaging import LogEntry
from mikan_api.responder import Respond, RunFinished, RunOutcome, RunStarted
from mikan_api.session_keys import SessionKey
from mikan_api.wire import Answer, Reset, Run, Stop
from mikan_gateway.ports import StopOutcome, Submitted

S1, S2 = SessionKey("C1"), SessionKey("C1:t2")
NEW = inbound(message_id="new", text="/new")


async def test_a_message_gets_one_number_and_one_run_however_often_it_comes(world: World) -> None:
    world.office()
    first = await world.runtime.submit(inbound(), True)
    again = await asyncio.gather(*(world.runtime.submit(inbound(), True) for _ in range(5)))
    assert first == Submitted(False, 1, first.run_id, 0)
    assert again == [Submitted(True, 1, first.run_id)] * 5
    link = await world.connect()
    assert world.runs(link) == [first.run_id]


async def test_a_message_that_wants_no_run_is_numbered_and_logged_alone(world: World) -> None:
    world.office()
    assert await world.runtime.submit(inbound(), False) == Submitted(False, 1, None)
    assert world.runtime.busy(key_of()) == 0
    assert world.offices.ensured == []


async def test_a_session_runs_one_after_another_and_sessions_at_once(world: World) -> None:
    world.office()
    first, second, third = [await world.runtime.submit(inbound("C1", m, session=s), True) for m, s in
                            (("m1", "C1"), ("m2", "C1"), ("m3", "C1:t2"))]  # fmt: skip
    assert [first.ahead, second.ahead, third.ahead] == [0, 1, 0]
    assert world.runtime.busy(key_of()) == 2
    link = await world.connect()
    assert world.runs(link) == [first.run_id, third.run_id]
    assert world.runs(link) == []
    assert first.run_id is not None
    await world.begin(link, first.run_id)
    assert world.runs(link) == []
    await world.finish(link, first.run_id)
    assert world.runs(link) == [second.run_id]


async def test_a_run_carries_what_holds_for_its_office(world: World) -> None:
    world.office()
    await world.ask()
    frame = world.take(await world.connect())[0]
    view = world.offices.views[key_of()]
    assert isinstance(frame, Run)
    assert frame.run.event == inbound().event
    assert (frame.run.llm, frame.run.budgets, frame.run.door_policy) == (view.llm, view.budgets, view.door_policy)
    assert (frame.run.log_number, frame.run.session_key) == (1, S1)
    assert frame.run.queued_at.timestamp() == world.clock.now()


async def test_no_run_comes_before_the_log_it_builds_on(world: World) -> None:
    world.office()
    await world.runtime.submit(inbound(message_id="m0"), False)
    run = await world.ask("m1")
    link = await world.connect()
    assert world.runtime.desk.take(link, 1) == []
    entries = await world.runtime.desk.log_after(key_of(), 0)
    assert [entry.number for entry in entries] == [1, 2]
    assert [frame.run.run_id for frame in world.runtime.desk.take(link, 2) if isinstance(frame, Run)] == [run]


async def test_the_log_goes_on_with_what_is_posted(world: World) -> None:
    world.office()
    await world.ask()
    await world.connect()
    assert await world.runtime.log_posted(key_of(), posted("p1")) == 2
    assert await world.runtime.log_posted(key_of(), posted("p1")) == 2
    expected = (LogEntry(number=2, message=posted("p1"), from_bot=True),)
    assert await world.runtime.desk.log_after(key_of(), 1) == expected
    assert await world.runtime.desk.log_after(key_of(), 2) == ()


async def test_what_is_reported_is_shown_in_order_and_usage_counted(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect()
    world.take(link)
    assert await world.report(link, run, RunStarted(), Respond(text="hi")) == 2
    await world.finish(link, run)
    assert [what for _, what in await world.output.until(3)] == ["run_started", "respond", "run_finished"]
    assert world.runtime.busy(key_of()) == 0
    assert world.offices.touched[-1] == (key_of(), 0)


async def test_stop_ends_the_run_of_its_session(world: World) -> None:
    world.office()
    run, queued = await world.ask("m1"), await world.ask("m2")
    link = await world.connect()
    world.take(link)
    await world.begin(link, run)
    outcome = await world.runtime.stop(key_of(), S1, True)
    assert [record.run_id for record in outcome.stopped] == [run]
    assert link.frames == [Stop(run_id=run)]
    await world.finish(link, run, RunOutcome.STOPPED)
    assert world.runs(link) == [queued]


async def test_stop_at_top_level_ends_the_only_one_and_lists_several(world: World) -> None:
    world.office()
    key = key_of()
    elsewhere = await world.ask("m1", "C1:t2")
    link = await world.connect()
    world.take(link)
    assert await world.runtime.stop(key, S1, False) == StopOutcome()
    other = await world.ask("m2", "C1:t3")
    listed = await world.runtime.stop(key, S1, True)
    assert ([r.run_id for r in listed.candidates], listed.stopped) == ([elsewhere, other], ())
    await world.finish(link, elsewhere)
    only = await world.runtime.stop(key, S1, True)
    assert [r.run_id for r in only.stopped] == [other]
    assert await world.runtime.stop(key_of("C9"), S1, True) == StopOutcome()


async def test_a_run_that_nobody_has_yet_is_stopped_at_once_and_never_given(world: World) -> None:
    world.office()
    run = await world.ask()
    outcome = await world.runtime.stop(key_of(), S1, True)
    assert [record.run_id for record in outcome.stopped] == [run]
    assert await world.output.until(1) == [(run, "run_finished")]
    assert isinstance(world.output.operations[0], RunFinished)
    assert world.output.operations[0].outcome is RunOutcome.STOPPED
    link = await world.connect()
    assert world.take(link) == []
    assert world.runtime.busy(key_of()) == 0


async def test_a_stop_survives_the_gateway_and_the_connection(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect()
    world.take(link)
    await world.begin(link, run)
    await world.runtime.stop(key_of(), S1, True)
    await world.restart()
    link = await world.connect(runs=(run,))
    assert link.frames == [Stop(run_id=run)]


async def test_a_stopped_run_that_its_agent_lost_before_it_began_is_not_given_again(world: World) -> None:
    world.office()
    run = await world.ask()
    world.take(await world.connect("i1"))
    await world.runtime.stop(key_of(), S1, True)
    link = await world.connect("i2")
    assert [world.take(link), world.take(link)] == [[], []]
    assert await world.output.until(1) == [(run, "run_finished")]
    await world.settle()
    assert world.output.of(run) == ["run_finished"]


async def test_reset_aborts_a_session_and_comes_before_what_follows(world: World) -> None:
    world.office()
    run, queued = await world.ask("m1"), await world.ask("m2")
    link = await world.connect()
    world.take(link)
    await world.begin(link, run)
    await world.runtime.reset(NEW.event, NEW.info)
    after = await world.ask("m4")
    assert link.frames == [Stop(run_id=run)]
    assert await world.output.until(2) == [(run, "run_started"), (queued, "run_finished")]
    assert world.take(link) == []
    await world.finish(link, run, RunOutcome.STOPPED)
    (reset,) = world.take(link)
    assert isinstance(reset, Reset)
    # The two messages before it are none of the fresh session's business; the one after it is.
    assert (reset.session_key, reset.log_number) == (S1, 2)
    assert world.take(link) == []
    await world.runtime.desk.answered(link, Answer(id=reset.id))
    assert world.runs(link) == [after]


async def test_a_reset_waits_for_a_sleeping_office_without_waking_it(world: World) -> None:
    world.office()
    await world.runtime.reset(NEW.event, NEW.info)
    await world.look(60)
    assert world.runtime.busy(key_of()) == 0
    assert (world.offices.ensured, world.offices.touched) == ([], [])
    await world.restart()
    link = await world.connect("i1")
    (first,) = world.take(link)
    link = await world.connect("i2")
    (again,) = world.take(link)
    assert isinstance(first, Reset)
    assert first == again
    await world.runtime.desk.answered(link, Answer(id=first.id))
    assert world.take(link) == []
    await world.restart()
    assert world.take(await world.connect("i3")) == []
    assert world.output.seen == []


async def test_a_reset_that_fails_is_told_below_the_command_even_after_a_crash(world: World) -> None:
    world.office()
    world.output.gate.clear()
    await world.runtime.reset(NEW.event, NEW.info)
    link = await world.connect()
    (reset,) = world.take(link)
    await world.runtime.desk.answered(link, Answer(id=reset.id, error="the disk is full"))
    await world.restart()
    world.output.gate.set()

    assert await world.output.until(1) == [(reset.id, "run_finished")]
    assert world.output.operations == [
        RunFinished(
            outcome=RunOutcome.FAILED,
            detail="No fresh session could be begun, so the old one goes on: the disk is full",
        )
    ]
    assert world.take(await world.connect("i2")) == []


async def test_unfinished_runs_come_back_in_their_order_after_a_restart(world: World) -> None:
    world.office()
    runs = [await world.ask(f"m{n}") for n in range(4)]
    await world.restart()
    await world.restart()
    link = await world.connect()
    given = []
    for _ in runs:
        (run,) = world.runs(link)
        given.append(run)
        await world.finish(link, run)
    assert given == runs
    await world.restart()
    assert world.runs(await world.connect("i2")) == []
