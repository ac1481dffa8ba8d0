"""Cuts at every point between message and answer: nothing lost, nothing twice, order kept."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway_doubles import WireAgent, dial, inbound, key_of
from gateway_fixtures import database_url
from gateway_server import Gateway
from mikan_api.responder import Respond, RunFinished, RunOutcome, RunStarted, ToolStatus, Working
from mikan_api.wire import Operation, Run, build_frame
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.incarnations import current_incarnations
from mikan_gateway.storage.operations import outputs
from mikan_gateway.storage.runs import unfinished_runs

__all__ = ["database_url"]

ANSWER = [
    RunStarted(),
    Working(label="sandbox"),
    ToolStatus(call_id="c1", label="bash"),
    Respond(text="answer"),
    RunFinished(outcome=RunOutcome.COMPLETED),
]
SHOWN = [operation.type for operation in ANSWER]


@pytest.fixture
async def gateway(database_url: str, tmp_path: Path) -> AsyncIterator[Gateway]:
    gateway = Gateway(database_url, tmp_path / "spool")
    await gateway.start()
    gateway.office()
    yield gateway
    await gateway.stop()


async def _send_from(agent: WireAgent, run: str, first: int) -> None:
    """As an agent does after a welcome: everything that is not known to be durable, in order."""
    for number, operation in enumerate(ANSWER, 1):
        if number > first:
            await agent.report(run, operation, number)


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_cut_after_any_operation_loses_and_repeats_nothing(gateway: Gateway, restarts: bool) -> None:
    for cut in range(len(ANSWER) + 1):
        gateway.output.seen.clear()
        incarnation, message = f"i{cut}", f"m{cut}"
        run = await gateway.ask(message)
        async with gateway.agent(incarnation) as agent:
            await agent.hello(log_number=cut)
            assert (await agent.until(Run)).run.run_id == run
            for operation in ANSWER[:cut]:
                await agent.report(run, operation)
            agent.socket.transport.abort()
        await gateway.gone()
        if restarts:
            await gateway.restart()
        async with gateway.agent(incarnation) as agent:
            welcome = await agent.hello(log_number=cut + 1, runs=(run,))
            assert 0 <= welcome.operation_number <= cut
            await _send_from(agent, run, welcome.operation_number)
            if welcome.operation_number < len(ANSWER):
                await agent.acknowledged(len(ANSWER))
        shown = await gateway.output.until_seen(run, "run_finished")
        await gateway.gone()
        # What was shown just before a restart, and not yet forgotten, may be shown again by the next process.
        assert (list(dict.fromkeys(shown)) if restarts else shown) == SHOWN


async def test_a_cut_before_the_run_was_seen_delivers_it_again(gateway: Gateway) -> None:
    run = await gateway.ask()
    for frames in range(3):
        async with gateway.agent() as agent:
            await agent.hello()
            for _ in range(frames):
                await agent.receive()
            agent.socket.transport.abort()
        await gateway.gone()
    async with gateway.agent() as agent:
        await agent.hello()
        assert (await agent.until(Run)).run.run_id == run


async def test_runs_keep_their_order_over_cuts_and_restarts(gateway: Gateway) -> None:
    runs = [await gateway.ask(f"m{n}") for n in range(6)]
    done: list[str] = []
    for n in range(len(runs)):
        async with gateway.agent(f"i{n}") as agent:
            await agent.hello()
            run = (await agent.until(Run)).run.run_id
            for operation in ANSWER:
                await agent.report(run, operation)
            await agent.acknowledged(len(ANSWER))
            done.append(run)
        await gateway.gone()
        if n % 2:
            await gateway.restart()
    assert done == runs


_PROCESS = """
import asyncio, sys
from pathlib import Path
from gateway_doubles import inbound
from gateway_server import Gateway
from mikan_gateway.agents.connection import AgentConnection
from mikan_api.wire import Ack

async def main() -> None:
    gateway = Gateway(sys.argv[1], Path(sys.argv[2]))
    await gateway.start()
    gateway.office()
    write = AgentConnection._write

    async def never_acknowledge(self, frame):
        if isinstance(frame, Ack):
            print("committed", frame.number, flush=True)
            await asyncio.Event().wait()
        await write(self, frame)

    AgentConnection._write = never_acknowledge
    for n in range(3):
        await gateway.runtime.submit(inbound(message_id=f"m{n}"), True)
    view = next(iter(gateway.offices.views.values()))
    print("listening", gateway.server.port, view.uid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class _Killed:
    """A gateway process that is killed between the commit and the acknowledgement."""

    port: int

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}"


async def test_killed_between_commit_and_acknowledgement_nothing_is_lost_or_doubled(
    database_url: str, tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROCESS, database_url, str(tmp_path / "spool"),
        stdout=asyncio.subprocess.PIPE, env=environment,
    )  # fmt: skip
    assert process.stdout is not None
    said = (await process.stdout.readline()).split()
    assert said[0] == b"listening"
    gateway = Gateway(database_url, tmp_path / "spool")
    gateway.office()
    first = _Killed()
    first.port = int(said[1])
    claims = gateway.offices.claims(key_of())
    assert claims.uid == said[2].decode()
    async with dial(first, claims) as agent:  # type: ignore[arg-type]
        await agent.hello()
        run = (await agent.until(Run)).run.run_id
        for operation in ANSWER[:4]:
            await agent.report(run, operation)
        committed = int((await process.stdout.readline()).split()[1])
        process.send_signal(signal.SIGKILL)
        await process.wait()
    await gateway.start()
    try:
        async with gateway.agent() as agent:
            welcome = await agent.hello(log_number=3, runs=(run,))
            assert committed <= welcome.operation_number <= 4
            await _send_from(agent, run, 0)  # even what it has is sent again: it is ignored
            following = (await agent.until(Run)).run.run_id
            assert following != run
        duplicate = await gateway.runtime.submit(inbound(message_id="m1"), True)
        assert (duplicate.duplicate, duplicate.log_number, duplicate.run_id) == (True, 2, following)
        # The killed process may have shown the first ones, and forgotten them.
        shown = await gateway.output.until_seen(run, "run_finished")
        assert shown == SHOWN[-len(shown) :]
        assert len(await gateway.database.read(unfinished_runs)) == 2
        assert [one.incarnation for one in await gateway.database.read(current_incarnations)] == ["i1"]
    finally:
        await gateway.stop()
    database = await Database.open(database_url)
    assert await database.read(outputs) == []
    await database.close()


async def test_operations_sent_twice_over_two_connections_are_shown_once(gateway: Gateway) -> None:
    run = await gateway.ask()
    async with gateway.agent() as first:
        await first.hello()
        await first.until(Run)
        for operation in ANSWER[:3]:
            await first.report(run, operation)
        async with gateway.agent() as second:
            welcome = await second.hello(log_number=1, runs=(run,))
            await _send_from(second, run, welcome.operation_number)
            frame = Operation(number=len(ANSWER), run_id=run, operation=ANSWER[-1])
            await second.socket.send(build_frame(frame))
            await second.acknowledged(len(ANSWER))
    await gateway.output.until(len(SHOWN))
    assert gateway.output.of(run) == SHOWN
