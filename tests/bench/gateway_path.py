"""The gateway's own share of a message: accepted, handed to the agent, answered, acknowledged, shown.

Run as a program; prints milliseconds, for one chat after another and for 20 at once.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from starlette.applications import Starlette

from gateway_doubles import KEY, FakeOffices, NoBlobs, RecordingOutput, RunningServer, dial, inbound, key_of
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.responder import Respond, RunFinished, RunOutcome, RunStarted
from mikan_api.wire import Run
from mikan_gateway.agents.authentication import Authenticator
from mikan_gateway.agents.hub import AgentHub
from mikan_gateway.agents.routes import agent_routes
from mikan_gateway.runtime.conversation_runtime import ConversationRuntime
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.spool import SpoolDirectory

CHATS = 20
ROUNDS = 200


def _figures(values: list[float]) -> dict[str, float]:
    ordered = sorted(value * 1_000 for value in values)
    return {
        "p50": round(statistics.median(ordered), 2),
        "p99": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 2),
    }


async def _agent(server: RunningServer, offices: FakeOffices, conversation: str) -> None:
    async with dial(server, offices.claims(key_of(conversation)), f"i-{conversation}") as agent:
        await agent.hello()
        while True:
            run = (await agent.until(Run)).run.run_id
            await agent.report(run, RunStarted())
            await agent.report(run, Respond(text="answer"))
            await agent.report(run, RunFinished(outcome=RunOutcome.COMPLETED))


async def measure(url: str, root: Path) -> dict[str, object]:
    """Measure on one database."""
    database = await Database.open(url)
    offices, output = FakeOffices(), RecordingOutput()
    runtime = ConversationRuntime(database, offices, output, NoBlobs())
    await runtime.start()
    hub = AgentHub(runtime.desk)
    app = Starlette(routes=agent_routes(Authenticator(lambda: [KEY], offices), hub, SpoolDirectory(root)))
    accepted: list[float] = []

    async def ask(conversation: str, number: int) -> float:
        began = time.perf_counter()
        submitted = await runtime.submit(inbound(conversation, f"m{number}"), True)
        accepted.append(time.perf_counter() - began)
        assert submitted.run_id is not None
        while "run_finished" not in output.of(submitted.run_id):
            output.news.clear()
            await output.news.wait()
        return time.perf_counter() - began

    async with RunningServer(app) as server:
        names = [f"C{n}" for n in range(CHATS)]
        for name in names:
            offices.add(OfficeAddress(Platform.CONSOLE, name))
        agents = [asyncio.create_task(_agent(server, offices, name)) for name in names]
        await asyncio.gather(*(ask(name, 0) for name in names))
        accepted.clear()
        single = []
        for number in range(1, ROUNDS):
            output.seen.clear()
            single.append(await ask("C0", number))
        alone = list(accepted)
        output.seen.clear()
        began = time.perf_counter()
        together = await asyncio.gather(*(ask(name, 10_000) for name in names))
        burst = time.perf_counter() - began
        for agent in agents:
            agent.cancel()
        await asyncio.gather(*agents, return_exceptions=True)
        hub.close()
    await runtime.close()
    await database.close()
    return {
        "accepted_ms": _figures(alone),
        "answered_ms": _figures(single),
        "twenty_at_once_ms": _figures(together),
        "twenty_all_done_ms": round(burst * 1_000, 1),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite+aiosqlite:///{root}/mikan.db"
        print(json.dumps(asyncio.run(measure(url, Path(root) / "spool")), indent=2))


if __name__ == "__main__":
    main()
