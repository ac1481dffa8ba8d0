"""An agent that is killed at any step: the next one finds a session that goes on, and runs nothing twice."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_peers.gateway import GatewayPeer
from agent_peers.models import Answer, Call, Hold, ModelsPeer, Text, say
from agent_peers.office import ADDRESS, config_in, entry, run_request, serving, workspace_in
from mikan_agent.__main__ import serve
from mikan_agent.messages import ToolResultMessage
from mikan_api.responder import Respond, RunFinished, RunOutcome, RunStarted

from .conftest import recorded_messages

PROCESS = """
import asyncio, signal, sys
from pathlib import Path
from agent_peers.office import config_in, workspace_in
from mikan_agent.app import Agent
from mikan_api.kill_points import arm
root, gateway, models = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
async def main():
    arm({"MIKAN_KILL_POINT": sys.argv[4]})
    agent = Agent(config_in(root, gateway, models), workspace=workspace_in(root))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, agent.terminate)
    await agent.run()
asyncio.run(main())
"""


@asynccontextmanager
async def process(
    root: Path, gateway: GatewayPeer, models: ModelsPeer, kill_point: str = ""
) -> AsyncIterator[asyncio.subprocess.Process]:
    """An agent as a process of its own, killed at the end."""
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROCESS,
        root,
        gateway.url,
        models.url,
        kill_point,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    try:
        yield agent
    finally:
        if agent.returncode is None:
            agent.kill()
        await agent.wait()


async def test_killed_while_the_model_speaks_the_run_is_not_repeated_and_the_session_goes_on(tmp_path: Path) -> None:
    async with ModelsPeer(Answer([Text("Half"), Hold()]), say("next")) as models, GatewayPeer(ADDRESS.key) as gateway:
        async with process(tmp_path, gateway, models):
            await gateway.until(lambda: gateway.connected)
            await gateway.deliver(run_request("one", "r1"))
            await gateway.until(lambda: gateway.seen.texts.get("r1") == "Half")
        gateway.runs["r2"] = run_request("two", "r2")
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.finished("r2")
        assert gateway.operations("r1") == [RunStarted()]
        assert [m["content"] for m in models.requests[-1]["messages"][1:]] == ["one", "two"]


async def test_killed_while_a_tool_runs_the_call_gets_an_error_result(tmp_path: Path) -> None:
    script = Answer(
        [Text("Look."), Call("bash", {"command": "true"}, "a", 0), Call("bash", {"command": "true"}, "b", 1)]
    )
    async with ModelsPeer(script, say("next")) as models, GatewayPeer(ADDRESS.key) as gateway:
        async with process(tmp_path, gateway, models):
            await gateway.until(lambda: gateway.connected)
            await gateway.deliver(run_request("one", "r1"))
            # There is no sandbox: the first call waits for it until the process dies.
            await gateway.until(lambda: len(gateway.operations("r1")) >= 2)
        gateway.runs["r2"] = run_request("two", "r2")
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.finished("r2")
        results = [
            m
            for m in await recorded_messages(workspace_in(tmp_path).office(ADDRESS))
            if isinstance(m, ToolResultMessage)
        ]
        assert [(r.tool_call_id, r.is_error) for r in results] == [("a", True), ("b", True)]
        roles = [m["role"] for m in models.requests[-1]["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "tool", "user"]


async def test_killed_before_a_run_began_it_is_delivered_again_and_runs_once(tmp_path: Path) -> None:
    async with ModelsPeer(say("answer")) as models, GatewayPeer(ADDRESS.key) as gateway:
        async with process(tmp_path, gateway, models):
            await gateway.until(lambda: gateway.connected)
            # Its log entry never comes, so it cannot begin.
            await gateway.deliver(run_request("one", "r1", log_number=1))
            await gateway.round_trip()
        gateway.log = [entry("one", 1)]
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.finished("r1")
        assert [type(o) for o in gateway.operations("r1")] == [RunStarted, Respond, RunFinished]


@pytest.mark.parametrize(
    "place", ["session.write.before:1", "session.write.after:1", "session.write.before:2", "session.write.after:2"]
)
async def test_killed_while_it_records_a_run_that_comes_again_the_session_has_everything_once(
    tmp_path: Path, place: str
) -> None:
    # The first write is what others said before, the second the message of the run.
    async with ModelsPeer(say("answer")) as models, GatewayPeer(ADDRESS.key) as gateway:
        gateway.log = [entry("earlier", 1), entry("one", 2)]
        gateway.runs["r1"] = run_request("one", "r1", log_number=2)
        async with process(tmp_path, gateway, models, f"agent.{place}") as agent:
            await agent.wait()
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.finished("r1")
        _, told, asked = [m["content"] for m in models.requests[-1]["messages"]]
        assert (told.splitlines()[1:], asked) == (["[2026-01-02T03:04:06.000Z] ada: earlier"], "one")


async def test_what_an_earlier_process_did_more_of_than_record_it_is_cut_off_and_not_done_again(tmp_path: Path) -> None:
    async with ModelsPeer(Answer([Call("read", {"path": "x"})]), say("answer"), say("next")) as models:
        async with GatewayPeer(ADDRESS.key) as gateway, serving(tmp_path, gateway.url, models.url):
            await gateway.until(lambda: gateway.connected)
            await gateway.deliver(run_request("one", "r1"))
            await gateway.finished("r1")
        asked = len(models.requests)
        # One that heard nothing of it delivers it again.
        async with GatewayPeer(ADDRESS.key) as gateway, serving(tmp_path, gateway.url, models.url):
            await gateway.until(lambda: gateway.connected)
            await gateway.deliver(run_request("one", "r1"))
            await gateway.finished("r1")
            await gateway.deliver(run_request("two", "r2"))
            await gateway.finished("r2")
        assert gateway.operations("r1") == [RunStarted(), RunFinished(outcome=RunOutcome.HANDED_BACK)]
        assert len(models.requests) == asked + 1
        assert [m["role"] for m in models.requests[-1]["messages"]] == [
            *("system", "user", "assistant", "tool", "assistant", "user")
        ]


async def test_told_to_end_the_process_finishes_what_runs_and_exits_with_zero(tmp_path: Path) -> None:
    async with (
        ModelsPeer(Answer([Text("a"), hold := Hold(), Text("b")])) as models,
        GatewayPeer(ADDRESS.key) as gateway,
        process(tmp_path, gateway, models) as agent,
    ):
        await gateway.until(lambda: gateway.connected)
        await gateway.deliver(run_request("one", "r1"))
        await hold.reached.wait()
        await gateway.deliver(run_request("two", "r2"))
        agent.send_signal(signal.SIGTERM)
        assert (await gateway.finished("r2")).outcome is RunOutcome.HANDED_BACK
        hold.release()
        assert (await gateway.finished("r1")).outcome is RunOutcome.COMPLETED
        assert await agent.wait() == 0


async def test_what_outlasts_the_drain_is_cut_and_told(tmp_path: Path) -> None:
    async with (
        ModelsPeer(Answer([Text("a"), Hold()])) as models,
        GatewayPeer(ADDRESS.key) as gateway,
        process(tmp_path, gateway, models) as agent,
    ):
        await gateway.until(lambda: gateway.connected)
        await gateway.deliver(run_request("one", "r1"))
        await gateway.until(lambda: gateway.seen.texts.get("r1") == "a")
        agent.send_signal(signal.SIGTERM)
        finished = await gateway.finished("r1")
        assert (finished.outcome, finished.detail) == (RunOutcome.FAILED, "the agent process was ended")
        assert Respond(text="a") in gateway.operations("r1")
        assert await agent.wait() == 0


def test_a_wrong_environment_is_named_in_one_line_with_exit_code_two() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mikan_agent"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mikan-agent: MIKAN_OFFICE_PLATFORM is not set\n"


def test_told_to_end_while_it_still_imports_the_process_obeys() -> None:
    program = (
        "import os, signal; from mikan_agent.__main__ import end_at_once_on_sigterm as handle;"
        "handle(); os.kill(os.getpid(), signal.SIGTERM); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 143


@pytest.mark.parametrize(("signalled", "code"), [(True, 143), (False, 0)])
async def test_an_end_by_a_signal_is_told_from_one_by_a_drain(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, signalled: bool, code: int
) -> None:
    class EndsSoon:
        def __init__(self, _config: object) -> None:
            self.ended = asyncio.Event()

        def terminate(self) -> None:
            self.ended.set()

        async def run(self) -> None:
            if signalled:
                os.kill(os.getpid(), signal.SIGTERM)
                await self.ended.wait()

    monkeypatch.setattr("mikan_agent.app.Agent", EndsSoon)
    try:
        assert await serve(config_in(tmp_path, "http://gateway", "http://models")) == code
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)


def test_connecting_imports_no_heavy_library() -> None:
    probe = "import sys, json, mikan_agent.app; print(json.dumps(sorted(m.split('.')[0] for m in sys.modules)))"
    loaded = set(json.loads(subprocess.check_output([sys.executable, "-c", probe], text=True)))
    assert loaded & {"httpx", "litellm", "kubernetes", "kopf", "rich", "starlette"} == set()
