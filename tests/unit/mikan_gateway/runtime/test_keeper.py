"""The Kubernetes side: Offices made, agents found gone, people told."""

import asyncio

import pytest

from gateway_doubles import key_of
from gateway_world import World
from mikan_gateway.exceptions import ClusterRefused
from mikan_gateway.ports import OfficeView
from mikan_gateway.runtime.keeper import REFUSED, TELL_QUEUED, TELL_QUEUED_AFTER, UNCONNECTED

TELL = 3.0


async def test_the_office_is_made_before_anything_else_and_the_message_waits_for_it(world: World) -> None:
    world.offices.unreachable = True
    run = await world.ask()
    await world.settle()
    for seconds in (0.5, 1.0, 2.0):
        world.clock.advance(seconds)
        await world.settle()
    assert len(world.offices.ensured) == 4
    world.offices.unreachable = False
    world.clock.advance(4.0)
    await world.settle()
    assert world.offices.touched == [(key_of(), 1)]
    assert world.runs(await world.connect()) == [run]


async def test_a_cluster_that_cannot_be_reached_is_told_after_a_while(world: World) -> None:
    world.offices.unreachable = True
    run = await world.ask()
    await world.look()
    assert world.output.seen == []
    await world.look(TELL)
    await world.look(1)
    assert world.output.of(run) == ["waiting:the cluster cannot be reached"]


async def test_a_cluster_that_is_back_is_asked_at_once(world: World) -> None:
    world.offices.unreachable, world.offices.synced = True, False
    await world.ask()
    for _ in range(60):
        await world.look(1)
    asked = len(world.offices.ensured)
    world.offices.unreachable, world.offices.synced = False, True
    await world.look(1)

    assert len(world.offices.ensured) == asked + 1
    assert world.offices.touched == [(key_of(), 1)]


async def test_a_cluster_that_refuses_an_office_is_not_said_to_be_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ensure(*_: object) -> OfficeView:
        raise ClusterRefused("creating office: 403 exceeded quota")

    monkeypatch.setattr(world.offices, "ensure", ensure)
    run = await world.ask()
    await world.look(TELL)
    assert world.output.of(run) == [f"waiting:{REFUSED}"]


async def test_a_sleeping_office_that_cannot_be_woken_says_that_the_cluster_is_away(world: World) -> None:
    world.office()
    run = await world.ask()
    world.offices.change(key_of(), ready=False, reason="Idle")
    world.offices.synced = False
    await world.look(TELL - 0.1)
    assert world.output.seen == []
    await world.look(0.1)
    world.offices.synced = True
    await world.look(1)
    assert world.output.of(run) == ["waiting:the cluster cannot be reached", "waiting:"]


async def test_a_connected_office_says_nothing_of_a_cluster_that_is_away(world: World) -> None:
    world.office()
    await world.connect()
    world.offices.synced = False
    await world.ask()
    await world.look(60)
    assert world.output.seen == []


async def test_waiting_offices_are_taken_up_after_a_restart(world: World) -> None:
    world.offices.unreachable = True
    run = await world.ask()
    await world.stop()
    world.offices.unreachable = False
    world.offices.ensured.clear()
    await world.start()
    await world.settle()
    assert world.offices.ensured == [key_of()]
    assert world.runs(await world.connect()) == [run]


async def test_a_reason_that_needs_somebody_is_told_once_and_taken_back(world: World) -> None:
    world.office()
    run = await world.ask()
    world.offices.change(key_of(), ready=False, reason="VaultNotReady", message="Secret x does not exist")
    await world.look()
    await world.look(TELL)
    await world.look(1)
    world.take(await world.connect())
    await world.settle()
    assert world.output.of(run) == ["waiting:Secret x does not exist (VaultNotReady)", "waiting:"]


async def test_messages_behind_another_say_so_while_it_takes_long_and_are_told_as_they_move(world: World) -> None:
    world.office()
    first, second, third = [await world.ask(f"m{n}") for n in (1, 2, 3)]
    link = await world.connect()
    assert world.runs(link) == [first]
    await world.begin(link, first)
    await world.look(TELL_QUEUED_AFTER - 0.1)
    assert world.output.of(second) == []

    await world.look(0.1)
    await world.look(1)
    assert world.output.of(second) == ["waiting:waiting for 1 earlier message"]
    assert world.output.of(third) == ["waiting:waiting for 2 earlier messages"]

    await world.finish(link, first)
    assert world.runs(link) == [second]
    await world.look(1)
    assert world.output.of(second) == ["waiting:waiting for 1 earlier message", "waiting:"]
    assert world.output.of(third)[1:] == ["waiting:waiting for 1 earlier message"]


async def test_of_a_long_queue_only_the_first_are_told_that_they_wait(world: World) -> None:
    world.office()
    runs = [await world.ask(f"m{n}") for n in range(10)]
    link = await world.connect()
    world.take(link)
    await world.begin(link, runs[0])
    await world.look(60)

    assert [bool(world.output.of(run)) for run in runs[1:]] == [True] * TELL_QUEUED + [False] * (9 - TELL_QUEUED)


async def test_a_reason_that_passes_clears_by_itself(world: World) -> None:
    world.office()
    run = await world.ask()
    world.offices.change(key_of(), reason="ImagePullFailed", message="no such image")
    await world.look(TELL)
    world.offices.change(key_of(), reason="Starting", message="")
    await world.look(1)
    assert world.output.of(run) == ["waiting:no such image (ImagePullFailed)", "waiting:"]


async def test_an_office_that_starts_is_given_time(world: World) -> None:
    world.office()
    run = await world.ask()
    world.offices.change(key_of(), ready=False, reason="Starting")
    await world.look(19)
    assert world.output.seen == []
    await world.look(1)
    assert world.output.of(run) == ["waiting:the office is still starting (Starting)"]


async def test_an_office_that_runs_while_its_agent_does_not_connect_says_that(world: World) -> None:
    world.office()
    run = await world.ask()
    await world.look(20)
    assert world.output.of(run) == ["waiting:the office runs, and its agent has not connected yet"]


async def test_a_run_whose_agent_is_away_for_long_says_so_until_it_is_back(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect()
    assert world.runs(link) == [run]
    await world.begin(link, run)
    world.runtime.desk.detach(link)
    await world.look(9.9)
    assert world.output.of(run) == ["run_started"]
    await world.look(0.1)
    world.offices.change(key_of(), ready=False, reason="PodUnschedulable", message="no node fits")
    await world.look(1)
    await world.connect(runs=(run,))
    await world.look(1)

    assert world.output.of(run)[1:] == [f"waiting:{UNCONNECTED}", "waiting:no node fits (PodUnschedulable)", "waiting:"]


async def test_a_suspended_office_is_given_nothing_and_says_so(world: World) -> None:
    world.office()
    run = await world.ask()
    world.offices.change(key_of(), suspended=True)
    link = await world.connect()
    assert world.take(link) == []
    await world.look()
    assert world.output.of(run) == ["waiting:this office is suspended (Suspended)"]
    world.offices.change(key_of(), suspended=False)
    await world.look(1)
    assert link.wakes > 0
    assert world.runs(link) == [run]


async def test_activity_is_noted_while_work_waits_and_not_after(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect()
    await world.look(1)
    assert world.offices.touched[-1] == (key_of(), 1)
    world.take(link)
    await world.finish(link, run)
    assert world.offices.touched[-1] == (key_of(), 0)
    before = len(world.offices.touched)
    await world.look(1)
    assert len(world.offices.touched) == before


async def _begun(world: World) -> str:
    world.office()
    run = await world.ask()
    link = await world.connect("i1", pod_uid="pod-1")
    world.take(link)
    await world.begin(link, run)
    await world.output.until(1)
    world.runtime.desk.detach(link)
    return run


async def test_a_run_whose_pod_is_gone_is_cut_off_without_waiting_for_the_next_one(world: World) -> None:
    run = await _begun(world)
    world.offices.change(key_of(), agent_pod_uid="pod-2")
    await world.look(9)
    assert world.output.of(run) == ["run_started"]
    await world.look(1)
    await world.look(1)
    assert world.output.of(run) == ["run_started", "cut_off"]
    assert world.runtime.busy(key_of()) == 0


async def test_a_run_whose_pod_is_there_or_unknown_is_waited_for(world: World) -> None:
    run = await _begun(world)
    for uid in ("pod-1", None):
        world.offices.change(key_of(), agent_pod_uid=uid)
        await world.look(60)
    assert world.output.of(run) == ["run_started", f"waiting:{UNCONNECTED}"]


async def test_a_deleted_office_has_its_run_cut_off_and_is_not_made_again_for_it(world: World) -> None:
    run = await _begun(world)
    world.offices.ensured.clear()
    del world.offices.views[key_of()]
    world.offices.synced = False
    await world.look(1)
    assert world.output.of(run) == ["run_started"]
    world.offices.synced = True
    await world.look(1)
    assert world.output.of(run) == ["run_started", "cut_off"]
    await world.look(1)
    assert world.offices.ensured == []


async def test_an_office_made_anew_while_we_were_away_has_its_run_cut_off(world: World) -> None:
    run = await _begun(world)
    await world.restart()
    world.office()
    await world.look(1)
    assert world.output.of(run) == ["run_started", "cut_off"]


async def test_a_connection_ends_with_its_office_or_epoch(world: World) -> None:
    world.office("C1")
    world.office("C2")
    one, two = await world.connect("i1", conversation="C1"), await world.connect("i2", conversation="C2")
    await world.look()
    assert (one.closed, two.closed) == (None, None)
    del world.offices.views[key_of("C1")]
    world.offices.change(key_of("C2"), token_epoch=1)
    await world.look()
    assert one.closed == two.closed == (4401, "this office's token is no longer valid")


async def test_a_drain_gives_nothing_more_and_waits_for_what_runs(world: World) -> None:
    world.office()
    run, queued = await world.ask("m1"), await world.ask("m2")
    link = await world.connect()
    world.take(link)
    draining = asyncio.create_task(world.runtime.drain(30))
    await world.begin(link, run)
    assert not draining.done()
    await world.finish(link, run)
    assert await draining is True
    assert world.take(link) == []
    await world.restart()
    assert world.runs(await world.connect()) == [queued]


async def test_a_drain_ends_in_time_and_nothing_is_lost(world: World) -> None:
    world.office()
    run = await world.ask()
    link = await world.connect()
    world.take(link)
    await world.begin(link, run)
    assert await world.runtime.drain(0.01) is False
    await world.restart()
    link = await world.connect(runs=(run,))
    await world.finish(link, run)
    assert (await world.output.until(2))[1] == (run, "run_finished")
