"""Who speaks for an office, what becomes of runs when that changes, and reports that do not fit."""

import pytest

from gateway_doubles import key_of
from gateway_world import World
from mikan_api.responder import Respond, RunFinished, RunOutcome, RunStarted, Upload, Working
from mikan_api.wire import Delta, Operation, Request, Stop
from mikan_gateway.exceptions import AgentRefused


def _respond(number: int, run_id: str, text: str = "x") -> Operation:
    return Operation(number=number, run_id=run_id, operation=Respond(text=text))


async def test_a_run_that_had_begun_is_cut_off_once_when_another_process_takes_over(world: World) -> None:
    world.office()
    begun, waiting = await world.ask("m1"), await world.ask("m2")
    old = await world.connect("i1")
    world.take(old)
    await world.begin(old, begun)
    new = await world.connect("i2", pod_uid="pod-2")
    assert old.closed == (4409, "another connection of this office has taken over")
    assert world.runs(new) == [waiting]
    await world.connect("i3", pod_uid="pod-3")
    await world.restart()
    await world.settle()
    assert world.output.of(begun) == ["run_started", "cut_off"]


async def test_a_run_that_had_not_begun_goes_to_the_next_process(world: World) -> None:
    world.office()
    run = await world.ask()
    assert world.runs(await world.connect("i1")) == [run]
    assert world.runs(await world.connect("i2")) == [run]
    await world.settle()
    assert world.output.of(run) == []


async def test_a_process_that_was_taken_over_from_is_refused_for_good(world: World) -> None:
    world.office()
    await world.connect("i1")
    await world.connect("i2")
    for _ in range(2):
        with pytest.raises(AgentRefused) as caught:
            await world.connect("i1")
        assert caught.value.code == 4409
        await world.restart()


async def test_the_same_process_goes_on_where_it_was(world: World) -> None:
    world.office()
    begun, given = await world.ask("m1"), await world.ask("m2", "C1:t2")
    link = await world.connect()
    world.take(link)
    await world.report(link, begun, RunStarted(), Working(label="sandbox"))
    await world.restart()
    link = await world.connect(runs=(begun,))
    assert await world.runtime.desk.commit(link, [_respond(3, begun)]) == 3
    assert world.runs(link) == [given]
    assert [what for _, what in await world.output.until(3)] == ["run_started", "working", "respond"]


async def test_a_process_that_forgot_a_run_it_had_begun_has_it_cut_off(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect()
    world.take(link)
    await world.begin(link, run)
    await world.connect(runs=())
    assert (await world.output.until(2))[1] == (run, "cut_off")


async def test_a_run_that_is_over_is_stopped_where_an_agent_still_has_it(world: World) -> None:
    world.office()
    link = await world.connect(runs=("run-unknown",))
    assert link.frames == [Stop(run_id="run-unknown")]


async def test_numbers_seen_before_are_ignored(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect()
    world.take(link)
    await world.report(link, run, RunStarted(), Respond(text="a"))
    repeat = [
        Operation(number=1, run_id=run, operation=RunStarted()),
        _respond(2, run, "a"),
        _respond(3, run, "b"),
    ]
    assert await world.runtime.desk.commit(link, repeat) == 3
    assert await world.runtime.desk.commit(link, repeat) == 3
    await world.output.until(3)
    await world.settle()
    assert world.output.of(run) == ["run_started", "respond", "respond"]


async def test_a_gap_keeps_what_came_before_it_and_refuses_the_agent(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect()
    world.take(link)
    operations = [Operation(number=1, run_id=run, operation=RunStarted()), _respond(3, run)]
    with pytest.raises(AgentRefused, match="operation 2 is missing") as caught:
        await world.runtime.desk.commit(link, operations)
    assert caught.value.code == 4400
    await world.restart()
    again = await world.connect(runs=(run,))
    assert await world.report(again, run, Respond(text="2")) == 2


@pytest.mark.parametrize("run_id", ["run-unknown", "other office's"])
async def test_an_operation_of_a_run_that_is_not_the_agents_counts_and_shows_nothing(world: World, run_id: str) -> None:
    world.office("C1")
    world.office("C2")
    theirs = await world.ask(conversation="C2")
    world.take(await world.connect("i2", conversation="C2"))
    link = await world.connect("i1")
    target = theirs if run_id == "other office's" else run_id
    operations = [
        _respond(1, target),
        Operation(number=2, run_id=target, operation=RunFinished(outcome=RunOutcome.FAILED)),
    ]
    assert await world.runtime.desk.commit(link, operations) == 2
    await world.settle()
    assert world.output.seen == []
    assert world.runtime.busy(key_of("C2")) == 1


async def test_what_follows_the_end_of_a_run_shows_nothing(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect()
    world.take(link)
    await world.report(link, run, RunStarted(), RunFinished(outcome=RunOutcome.COMPLETED), Respond(text="late"))
    await world.report(link, run, Respond(text="later"))
    await world.output.until(2)
    await world.settle()
    assert world.output.of(run) == ["run_started", "run_finished"]


async def test_a_connection_that_was_taken_over_from_reports_nothing_more(world: World) -> None:
    world.office()
    run = await world.ask()
    old = await world.connect("i1")
    world.take(old)
    await world.connect("i2")
    with pytest.raises(AgentRefused):
        await world.runtime.desk.commit(old, [_respond(1, run)])
    assert world.take(old) == []
    world.runtime.desk.detach(old)
    assert world.runs(await world.connect("i2")) == [run]


async def test_a_run_handed_back_keeps_its_place_and_goes_to_another_process(world: World) -> None:
    world.office()
    first, second = await world.ask("m1"), await world.ask("m2")
    link = await world.connect("i1")
    assert world.runs(link) == [first]
    await world.finish(link, first, RunOutcome.HANDED_BACK)
    assert world.runs(link) == []
    await world.restart()
    new = await world.connect("i2")
    assert world.runs(new) == [first]
    await world.finish(new, first)
    assert world.runs(new) == [second]
    await world.output.until(1)
    assert world.output.of(first) == ["run_finished"]


async def test_a_run_handed_back_after_it_began_is_cut_off(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect("i1")
    world.take(link)
    await world.report(link, run, RunStarted(), RunFinished(outcome=RunOutcome.HANDED_BACK))
    assert await world.output.until(2) == [(run, "run_started"), (run, "cut_off")]
    assert world.runs(await world.connect("i2")) == []


async def test_streamed_text_is_shown_while_the_run_is_under_way_only(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect()
    desk = world.runtime.desk
    desk.delta(link, Delta(run_id=run, offset=0, text="early"))
    world.take(link)
    desk.delta(link, Delta(run_id=run, offset=0, text="he"))
    desk.delta(link, Delta(run_id="run-unknown", offset=0, text="x"))
    await world.finish(link, run)
    desk.delta(link, Delta(run_id=run, offset=2, text="late"))
    assert world.output.deltas == [(run, 0, "he")]


async def test_history_is_answered_and_what_is_not_offered_says_so(world: World) -> None:
    world.office()
    await world.ask("m1")
    await world.ask("m2")
    link = await world.connect()
    reply = await world.runtime.desk.request(link, Request(id="q1", method="history", params={"after": 1}))
    assert (reply.id, reply.error) == ("q1", None)
    entries = reply.result["entries"]
    assert isinstance(entries, list)
    assert [entry["number"] for entry in entries] == [2]
    wrong = await world.runtime.desk.request(link, Request(id="q2", method="history", params={"limit": "all"}))
    assert wrong.error == "history takes 'after' and 'limit' (1 to 100)"
    for after in (-1, 2**70):
        beyond = await world.runtime.desk.request(link, Request(id="q3", method="history", params={"after": after}))
        assert beyond.error == wrong.error
    refused = await world.runtime.desk.request(link, Request(id="q4", method="post"))
    assert refused.error == "this gateway does not offer 'post'"


async def test_a_log_that_is_ahead_of_a_restored_database_is_gone_on_from(world: World) -> None:
    world.office()
    await world.ask("m1")
    link = await world.connect("i1")
    hello = link.hello(log_number=7).model_copy(update={"incarnation": "i2"})
    await world.runtime.desk.attach(link, link.claims, hello)
    await world.ask("m2")
    assert [entry.number for entry in await world.runtime.desk.log_after(key_of(), 7)] == [8]
    absurd = link.hello(log_number=2**62).model_copy(update={"incarnation": "i3"})
    with pytest.raises(AgentRefused, match="cannot be"):
        await world.runtime.desk.attach(link, link.claims, absurd)


async def test_an_upload_goes_from_the_spool_once_it_was_shown(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect()
    world.take(link)
    await world.report(link, run, RunStarted(), Upload(blob_id="b1", name="a.txt"))
    await world.output.until(2)
    await world.settle()
    assert world.blobs.discarded == ["b1"]
