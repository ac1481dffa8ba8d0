"""The gateway's side of the wire, with a real WebSocket client: who may connect, and what ends a connection."""

import asyncio
import contextlib
import dataclasses
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import delete, select
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway_doubles import WireAgent, dial, inbound, key_of
from gateway_server import Gateway
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.messaging import Attachment
from mikan_api.responder import Respond, RunFinished, RunOutcome, RunStarted
from mikan_api.wire import MAX_FRAME, Ack, Delta, Hello, LogBatch, LogWritten, Reply, Request, Run, Stop, build_frame
from mikan_gateway.agents import connection as connection_module
from mikan_gateway.ports import InboundMessage
from mikan_gateway.storage.tables import messages, offices


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    gateway = Gateway(f"sqlite+aiosqlite:///{tmp_path}/mikan.db", tmp_path / "spool")
    await gateway.start()
    gateway.office()
    yield gateway
    await gateway.stop()


async def _closed(agent: WireAgent) -> tuple[int, str]:
    """The close code and reason that the gateway gives; frames before it are dropped."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            await agent.receive()
    assert agent.socket.close_code is not None
    return agent.socket.close_code, agent.socket.close_reason or ""


async def test_a_message_goes_to_the_agent_and_its_answer_back(gateway: Gateway) -> None:
    run = await gateway.ask()
    async with gateway.agent() as agent:
        assert (await agent.hello()).operation_number == 0
        log = await agent.receive()
        assert isinstance(log, LogBatch)
        assert [entry.number for entry in log.entries] == [1]
        delivered = await agent.receive()
        assert isinstance(delivered, Run)
        assert delivered.run.run_id == run
        await agent.report(run, RunStarted())
        await agent.socket.send(build_frame(Delta(run_id=run, offset=0, text="hi")))
        await agent.report(run, Respond(text="hi there"))
        await agent.acknowledged(await agent.report(run, RunFinished(outcome=RunOutcome.COMPLETED)))
    assert [what for _, what in await gateway.output.until(3)] == ["run_started", "respond", "run_finished"]
    assert gateway.output.deltas == [(run, 0, "hi")]


async def test_a_second_message_comes_while_the_agent_is_connected(gateway: Gateway) -> None:
    async with gateway.agent() as agent:
        await agent.hello()
        run = await gateway.ask()
        assert [type(await agent.receive()) for _ in range(2)] == [LogBatch, Run]
        await gateway.runtime.stop(key_of(), inbound().event.session_key, True)
        assert await agent.receive() == Stop(run_id=run)


async def test_a_long_log_comes_in_bounded_batches_and_before_the_run(gateway: Gateway) -> None:
    await asyncio.gather(*(gateway.runtime.submit(inbound(message_id=f"m{n}"), False) for n in range(450)))
    run = await gateway.ask("last")
    async with gateway.agent() as agent:
        await agent.hello(log_number=20)
        batches = [await agent.receive() for _ in range(3)]
        assert [len(batch.entries) for batch in batches] == [200, 200, 31]
        numbers = [entry.number for batch in batches for entry in batch.entries]
        assert numbers == list(range(21, 452))
        assert (await agent.receive()).run.run_id == run


@pytest.mark.parametrize(
    ("case", "status"),
    [("another office", 403), ("deleted", 403), ("another epoch", 403), ("forged", 401), ("not known yet", 503)],
)
async def test_a_token_that_is_not_good_for_this_office_opens_nothing_and_fills_no_log(
    gateway: Gateway, case: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.office("C2")
    claims = gateway.offices.claims(key_of("C2" if case == "another office" else "C1"))
    match case:
        case "deleted":
            del gateway.offices.views[key_of()]
        case "another epoch":
            gateway.offices.change(key_of(), token_epoch=1)
        case "not known yet":
            gateway.offices.synced = False
            del gateway.offices.views[key_of()]
    key = b"f" * 32 if case == "forged" else b"k" * 32
    with pytest.raises(InvalidStatus) as caught:
        async with dial(gateway.server, claims, key=key, path_key=key_of()):
            pass
    assert caught.value.response.status_code == status
    assert "error" in json.loads(caught.value.response.body)
    assert len(gateway.hub) == 0
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "no json",
        "[]",
        '{"type":"operation","number":1}',
        '{"type":"no_such_type"}',
        '{"type":"welcome"}',
        '{"type":"operation","number":0,"runId":"r","operation":{"type":"run_started"}}',
        '{"type":"operation","number":1,"runId":"r","operation":{"type":"no_such_operation"}}',
        b"\x00\x01",
    ],
)
async def test_a_frame_that_is_not_of_the_protocol_ends_the_connection(gateway: Gateway, frame: str | bytes) -> None:
    async with gateway.agent() as agent:
        await agent.hello()
        await agent.socket.send(frame)
        assert (await _closed(agent))[0] == 4400


async def test_unknown_fields_are_ignored(gateway: Gateway) -> None:
    async with gateway.agent() as agent:
        hello = Hello(pod_name="p", pod_uid="u", incarnation="i1").to_json_dict()
        await agent.socket.send(json.dumps({**hello, "ofTheFuture": {"a": [1]}}))
        assert (await agent.receive()).operation_number == 0


async def test_whoever_begins_with_something_else_than_a_hello_is_refused(gateway: Gateway) -> None:
    async with gateway.agent() as agent:
        await agent.report("r", RunStarted())
        assert await _closed(agent) == (4400, "the first frame is no hello")


async def test_another_protocol_is_refused(gateway: Gateway) -> None:
    async with gateway.agent() as agent:
        await agent.socket.send(build_frame(Hello(protocol=2, pod_name="p", pod_uid="u", incarnation="i1")))
        assert await _closed(agent) == (4400, "this gateway speaks protocol 1, not 2")


async def test_whoever_says_nothing_is_not_kept(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "HELLO_TIMEOUT", 0.01)
    async with gateway.agent() as agent:
        assert await _closed(agent) == (4400, "no hello came")


async def test_a_gap_in_the_numbers_ends_the_connection_after_what_came_before_it(gateway: Gateway) -> None:
    run = await gateway.ask()
    async with gateway.agent() as agent:
        await agent.hello()
        await agent.until(Run)
        await agent.report(run, RunStarted())
        await agent.report(run, Respond(text="x"), 3)
        assert await _closed(agent) == (4400, "operation 2 is missing")
    async with gateway.agent() as agent:
        assert (await agent.hello(log_number=1, runs=(run,))).operation_number == 1


async def test_a_frame_that_is_too_long_ends_the_connection(gateway: Gateway) -> None:
    async with gateway.agent() as agent:
        await agent.hello()
        with pytest.raises(ConnectionClosed) as caught:
            await asyncio.gather(agent.socket.send("x" * (MAX_FRAME + 1)), agent.receive())
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009


async def test_a_flood_ends_the_connection(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mikan_gateway.agents.allowance.FRAME_BURST", 50.0)
    monkeypatch.setattr("mikan_gateway.agents.allowance.FRAMES_PER_SECOND", 0.0)
    async with gateway.agent() as agent:
        await agent.hello()
        for _ in range(60):
            await agent.socket.send(build_frame(Delta(run_id="r", offset=0, text="x")))
        assert await _closed(agent) == (4429, "too many frames")


async def test_a_second_connection_of_the_same_process_takes_over(gateway: Gateway) -> None:
    run = await gateway.ask()
    async with gateway.agent() as first:
        await first.hello()
        await first.until(Run)
        async with gateway.agent() as second:
            await second.hello(log_number=1, runs=(run,))
            assert (await _closed(first))[0] == 4409
            await second.acknowledged(await second.report(run, RunStarted()))


async def test_of_two_processes_the_newer_speaks_and_the_older_never_again(gateway: Gateway) -> None:
    run = await gateway.ask()
    async with gateway.agent("old") as old:
        await old.hello()
        await old.until(Run)
        await old.acknowledged(await old.report(run, RunStarted()))
        async with gateway.agent("new") as new:
            await new.hello(log_number=1, pod_uid="pod-2")
            assert (await _closed(old))[0] == 4409
            async with gateway.agent("old") as again:
                await again.socket.send(build_frame(Hello(pod_name="p", pod_uid="u", incarnation="old")))
                assert await _closed(again) == (4409, "another agent of this office has taken over")
            following = await gateway.ask("m2")
            assert (await new.until(Run)).run.run_id == following
    assert (await gateway.output.until(2))[1] == (run, "cut_off")


async def test_a_connection_ends_when_its_office_is_deleted(gateway: Gateway) -> None:
    async with gateway.agent() as agent:
        await agent.hello()
        del gateway.offices.views[key_of()]
        await gateway.runtime.keeper.look()
        assert (await _closed(agent))[0] == 4401


async def test_a_restart_of_the_gateway_is_announced(gateway: Gateway) -> None:
    async with gateway.agent() as agent:
        await agent.hello()
        gateway.hub.close()
        assert await _closed(agent) == (1012, "the gateway restarts")


async def test_requests_are_answered(gateway: Gateway) -> None:
    await gateway.ask()
    async with gateway.agent() as agent:
        await agent.hello()
        await agent.socket.send(build_frame(Request(id="q1", method="history")))
        reply = await agent.until(Reply)
        assert (reply.id, [entry["number"] for entry in reply.result["entries"]]) == ("q1", [1])


async def test_twenty_offices_are_served_at_once_and_none_meets_anothers_run(gateway: Gateway) -> None:
    names = [f"D{n}" for n in range(20)]
    for name in names:
        gateway.offices.add(OfficeAddress(Platform.CONSOLE, name))

    async def chat(name: str) -> None:
        async with gateway.agent(f"i-{name}", name) as agent:
            await agent.hello()
            for n in range(5):
                expected = await gateway.ask(f"m{n}", conversation=name)
                delivered = await agent.until(Run)
                assert delivered.run.run_id == expected
                assert delivered.run.event.conversation_id == name
                await agent.report(expected, RunStarted())
                await agent.report(expected, Respond(text=name))
                await agent.report(expected, RunFinished(outcome=RunOutcome.COMPLETED))
                await agent.until(Ack)

    await asyncio.gather(*(chat(name) for name in names))
    seen = await gateway.output.until(300)
    runs = {run for run, _ in seen}
    assert len(runs) == 100
    assert all(gateway.output.of(run) == ["run_started", "respond", "run_finished"] for run in runs)


async def test_with_a_full_disk_nothing_is_acknowledged_and_the_agent_tries_again_later(gateway: Gateway) -> None:
    run = await gateway.ask()
    async with gateway.agent() as agent:
        await agent.hello()
        await agent.until(Run)
        await gateway.database.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=1") and None)
        await agent.report(run, Respond(text="x" * 900_000))
        code, reason = await _closed(agent)
        assert (code, reason.split(":")[0]) == (1013, "The volume of the gateway's state is full")
    async with gateway.agent() as agent:  # there is room again
        assert (await agent.hello(log_number=1, runs=(run,))).operation_number == 0
        await agent.acknowledged(await agent.report(run, Respond(text="x" * 900_000)))
    await gateway.output.until_seen(run, "respond")
    assert gateway.output.of(run) == ["respond"]


def _with_file(message_id: str, file_id: str) -> InboundMessage:
    message = inbound(message_id=message_id)
    native = message.event.message.model_copy(update={"attachments": (Attachment(id=file_id, name="a.txt", size=1),)})
    return dataclasses.replace(message, event=message.event.model_copy(update={"message": native}))


async def _piece() -> AsyncIterator[bytes]:
    yield b"x"


async def test_a_file_leaves_the_spool_once_the_agent_has_written_its_entry(gateway: Gateway) -> None:
    for number in (1, 2):
        await gateway.spool.save_attachment(key_of(), f"f{number}", _piece())
        await gateway.runtime.submit(_with_file(f"m{number}", f"f{number}"), False)
    async with gateway.agent() as agent:
        await agent.hello()
        log = await agent.receive()
        assert isinstance(log, LogBatch)
        assert [entry.number for entry in log.entries] == [1, 2]
        await agent.socket.send(build_frame(LogWritten(number=1)))
        await agent.socket.send(build_frame(Request(id="r", method="history")))
        assert isinstance(await agent.receive(), Reply)
    assert not gateway.spool.attachment(key_of(), "f1").exists()
    assert gateway.spool.attachment(key_of(), "f2").exists()


async def test_an_agent_is_told_of_entries_that_are_gone(gateway: Gateway) -> None:
    for number in range(1, 4):
        await gateway.runtime.submit(inbound(message_id=f"m{number}"), False)
    await gateway.database.write(lambda connection: connection.execute(delete(messages).where(messages.c.number < 3)))

    async with gateway.agent() as agent:
        await agent.hello()
        first = await agent.receive()
        assert isinstance(first, LogBatch)
        assert ([entry.number for entry in first.entries], first.after) == ([3], 2)
        await gateway.runtime.submit(inbound(message_id="m4"), False)
        second = await agent.receive()
        assert isinstance(second, LogBatch)
        assert ([entry.number for entry in second.entries], second.after) == ([4], 0)


async def test_how_far_an_agent_has_written_the_log_outlives_its_connection(gateway: Gateway) -> None:
    for number in range(1, 4):
        await gateway.runtime.submit(inbound(message_id=f"m{number}"), False)
    async with gateway.agent() as agent:
        await agent.hello()
        assert isinstance(await agent.receive(), LogBatch)
        await agent.socket.send(build_frame(LogWritten(number=2)))
    await gateway.gone()
    await gateway.runtime.desk.close()

    written = await gateway.database.read(
        lambda connection: connection.execute(select(offices.c.written_number)).scalar()
    )
    assert written == 2
