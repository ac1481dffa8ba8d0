"""The gateway as a process of its own, on a real API server, with a played agent."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url
from websockets.asyncio.client import connect

from free_port import free_port
from gateway_doubles import KEY, WireAgent
from mikan_api.console import CONSOLE_PREFIX, ConsoleEvent
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.responder import Respond, RunFinished, RunOutcome, RunStarted
from mikan_api.tokens import OfficeClaims, issue_token
from mikan_api.wire import Run, Stop
from mikan_cluster.commands import Kubectl
from mikan_gateway import lease
from postgres import postgres_server

TOKEN = "t" * 24


class Process:
    """`python -m mikan_gateway` with a state directory that outlives it."""

    def __init__(self, root: Path, namespace: str, kubectl: Kubectl, conversation: str) -> None:
        self.root, self.namespace, self.kubectl = root, namespace, kubectl
        self.address = OfficeAddress(Platform.CONSOLE, conversation)
        self.port, self.console = free_port(), free_port()
        for name, content in {"settings.json": b"{}", "current": KEY, "token": TOKEN.encode()}.items():
            (root / name).write_bytes(content)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(self.kubectl.kubeconfig),
            "MIKAN_NAMESPACE": self.namespace,
            "MIKAN_OFFICES_NAMESPACE": self.namespace,
            "MIKAN_SETTINGS_DIR": str(self.root),
            "MIKAN_KEYS_DIR": str(self.root),
            "MIKAN_LISTEN": f"127.0.0.1:{self.port}",
            "MIKAN_DATABASE_URL": f"sqlite+aiosqlite:///{self.root}/mikan.db",
            "MIKAN_SPOOL_DIR": str(self.root / "spool"),
            "MIKAN_CONSOLE_LISTEN": f"127.0.0.1:{self.console}",
            "MIKAN_CONSOLE_TOKEN_FILE": str(self.root / "token"),
            "MIKAN_DRAIN": "1s",
        }

    async def start(self, **environment: str) -> None:
        """Start it and wait until it is ready."""
        await self.spawn(**environment)
        await self.ready(200)

    async def ready(self, status: int) -> None:
        """Wait until it answers so when asked whether it is ready."""
        async with asyncio.timeout(60), httpx.AsyncClient(trust_env=False) as client:
            while True:
                assert self._process
                assert self._process.returncode is None, await self.errors()
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(f"http://127.0.0.1:{self.port}/readyz")).status_code == status:
                        return
                await asyncio.sleep(0.1)

    async def spawn(self, **environment: str) -> None:
        with await asyncio.to_thread((self.root / "log").open, "ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "mikan_gateway"),
                env=self.environment | environment,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
            )

    async def end(self, number: signal.Signals) -> int:
        """Send a signal; the exit code."""
        assert self._process
        self._process.send_signal(number)
        return await self.exited()

    async def exited(self) -> int:
        assert self._process
        return await asyncio.wait_for(self._process.wait(), 30)

    async def errors(self) -> str:
        return await asyncio.to_thread((self.root / "log").read_text)

    async def part(self, name: str, reason: str) -> None:
        """Wait until it says of a part that it is not well, and among the reasons this."""
        async with asyncio.timeout(60), httpx.AsyncClient(trust_env=False) as client:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    parts = (await client.get(f"http://127.0.0.1:{self.port}/readyz")).json()["parts"]
                    if name in parts and not parts[name]["ok"] and reason in parts[name]["reason"]:
                        return
                await asyncio.sleep(0.1)

    async def give_lease(self, holder: str) -> None:
        """Have somebody hold the Lease from now on, for a minute."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 60}
        patch = (
            "patch",
            "lease",
            "mikan-gateway",
            "-n",
            self.namespace,
            "--type=merge",
            "-p",
            json.dumps({"spec": spec}),
        )
        await asyncio.to_thread(self.kubectl, *patch)

    async def say(self, message_id: str, text: str) -> int:
        """Type a message; its log number."""
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False) as client:
            response = await client.post(
                f"{self._conversation}/messages", json={"messageId": message_id, "userId": "ann", "text": text}
            )
        assert response.status_code == 202, response.text
        return int(response.json()["logNumber"])

    async def until(self, kind: str, text: str = "", after: int = 0) -> ConsoleEvent:
        """The first event of a kind that has a text."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            asyncio.timeout(30),
            httpx.AsyncClient(headers=headers, trust_env=False) as client,
            client.stream("GET", f"{self._conversation}/events?after={after}") as response,
        ):
            async for line in response.aiter_lines():
                event = ConsoleEvent.model_validate_json(line) if line.strip() else None
                if event and event.kind == kind and text in event.text:
                    return event
        raise AssertionError("the stream ended")

    async def agent(self, incarnation: str = "i1") -> "Any":
        """Connect as the office's agent."""
        office = await asyncio.to_thread(self.kubectl.get, "office", self.address.key, "-n", self.namespace)
        token = issue_token(KEY, "gateway", OfficeClaims(self.address.key, office["metadata"]["uid"], 0))
        url = f"ws://127.0.0.1:{self.port}/agent/v1/offices/{self.address.key}"
        return WireAgent(
            await connect(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None), incarnation
        )

    @property
    def _conversation(self) -> str:
        return f"http://127.0.0.1:{self.console}{CONSOLE_PREFIX}/{self.address.conversation_id}"


@pytest.fixture
async def process(tmp_path: Path, namespace: str, kubectl: Kubectl, conversation: str) -> AsyncIterator[Process]:
    process = Process(tmp_path, namespace, kubectl, conversation)
    yield process
    if process._process and process._process.returncode is None:
        await process.end(signal.SIGKILL)


async def answer(agent: WireAgent, run_id: str, text: str) -> None:
    await agent.report(run_id, RunStarted())
    await agent.report(run_id, Respond(text=text))
    await agent.acknowledged(await agent.report(run_id, RunFinished(outcome=RunOutcome.COMPLETED)))


async def test_a_message_is_answered_and_the_process_ends_well(process: Process) -> None:
    await process.start()
    assert await process.say("m1", "hello") == 1
    agent = await process.agent()
    await agent.hello()
    run = (await agent.until(Run)).run
    assert run.event.message.text == "hello"
    await answer(agent, run.run_id, "hello yourself")

    assert (await process.until("post")).text == "hello yourself"
    assert (await process.until("working")).reply_to == "m1"
    assert await process.end(signal.SIGTERM) == 0
    await agent.socket.close()


async def test_what_was_acknowledged_outlives_a_kill_and_nothing_is_shown_twice(process: Process) -> None:
    await process.start()
    await process.say("m1", "one")
    await process.say("m2", "two")
    agent = await process.agent()
    await agent.hello()
    run = (await agent.until(Run)).run
    await agent.report(run.run_id, RunStarted())
    await agent.acknowledged(await agent.report(run.run_id, Respond(text="first")))
    await process.until("post", "first")
    assert await process.end(signal.SIGKILL) == -signal.SIGKILL

    await process.start()
    assert await process.say("m2", "two") == 2
    again = await process.agent()
    again_welcome = await again.hello(runs=(run.run_id,))
    assert again_welcome.operation_number == 2
    await again.report(run.run_id, RunFinished(outcome=RunOutcome.COMPLETED))
    second = (await again.until(Run)).run
    assert second.event.message.text == "two"
    await answer(again, second.run_id, "second")

    await process.until("post", "second")
    posts = [await process.until("post", "first"), await process.until("post", "second")]
    assert posts[0].message_id != posts[1].message_id
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.until("post", "first", after=posts[0].seq), 1)
    await again.socket.close()


async def test_stop_reaches_the_agent(process: Process) -> None:
    await process.start()
    await process.say("m1", "count for ever")
    agent = await process.agent()
    await agent.hello()
    run = (await agent.until(Run)).run
    await agent.report(run.run_id, RunStarted())
    await process.until("post", "Working")
    await process.say("m2", "stop")

    assert (await agent.until(Stop)).run_id == run.run_id
    await agent.report(run.run_id, RunFinished(outcome=RunOutcome.STOPPED))
    await process.until("edit", "(Stopped.)")
    await agent.socket.close()


async def test_the_state_of_every_part_is_told(process: Process) -> None:
    await process.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{process.port}", trust_env=False) as client:
        assert (await client.get("/health")).json() == {"ok": True}
        assert (await client.get("/healthz")).json() == {"ok": True, "dead": []}
        parts = (await client.get("/readyz")).json()["parts"]
        metrics = (await client.get("/metrics")).text

    assert set(parts) == {"settings", "token keys", "state volume", "database", "office-watch", "platform-console"}
    assert all(part["ok"] for part in parts.values())
    assert 'mikan_gateway_part_up{part="office-watch"} 1.0' in metrics


async def test_a_second_gateway_waits_for_the_lease(process: Process, tmp_path: Path, conversation: str) -> None:
    await process.start(MIKAN_LEASE="1", MIKAN_POD_NAME="one")
    other_root = tmp_path / "other"
    other_root.mkdir()
    other = Process(other_root, process.namespace, process.kubectl, conversation)
    await other.spawn(MIKAN_LEASE="1", MIKAN_POD_NAME="two")
    await other.ready(503)
    assert await process.end(signal.SIGTERM) == 0

    await other.ready(200)
    assert await other.end(signal.SIGTERM) == 0


async def test_a_second_gateway_on_the_same_volume_waits_and_need_not_wait_for_the_lease_of_a_killed_one(
    process: Process, conversation: str
) -> None:
    await process.start(MIKAN_LEASE="1", MIKAN_POD_NAME="one")
    other = Process(process.root, process.namespace, process.kubectl, conversation)
    await other.spawn(MIKAN_LEASE="1", MIKAN_POD_NAME="two")
    await other.ready(503)
    assert await process.end(signal.SIGKILL) == -signal.SIGKILL

    began = time.monotonic()
    await other.ready(200)
    assert time.monotonic() - began < lease.DURATION
    assert await other.end(signal.SIGTERM) == 0


async def test_a_gateway_whose_lease_is_taken_away_begins_anew_and_waits(process: Process) -> None:
    await process.start(MIKAN_LEASE="1", MIKAN_POD_NAME="one")
    try:
        await process.give_lease("another")
        await process.part("lease", "another gateway is active: another")
        await process.ready(503)
    finally:
        await process.give_lease("")
    await process.ready(200)
    assert await process.end(signal.SIGTERM) == 0
    assert (await process.errors()).count("gateway started") == 2


async def test_a_database_that_is_not_there_yet_is_waited_for(process: Process) -> None:
    url = make_url(postgres_server().create_database())
    later = free_port()
    await process.spawn(MIKAN_DATABASE_URL=url.set(port=later).render_as_string(hide_password=False))
    await process.part("database", "Connect")  # the system's words differ with the event loop

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(url.host, url.port)
        await asyncio.gather(_pump(reader, back), _pump(there, writer))

    async with await asyncio.start_server(forward, "127.0.0.1", later):
        await process.ready(200)
        assert await process.end(signal.SIGTERM) == 0


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"MIKAN_NAMESPACE": ""}, "MIKAN_NAMESPACE is not set"),
        ({"MIKAN_CONSOLE_TOKEN_FILE": "/nonexistent"}, "MIKAN_CONSOLE_TOKEN_FILE: /nonexistent: No such file"),
        ({"MIKAN_KEYS_DIR": "/nonexistent"}, "MIKAN_KEYS_DIR: /nonexistent/current: No such file"),
        ({"MIKAN_DATABASE_URL": "mysql://x"}, "neither sqlite nor postgresql"),
        ({"MIKAN_SETTINGS_DIR": "/nonexistent"}, "settings in /nonexistent"),
        ({"KUBECONFIG": "/nonexistent"}, "no access to Kubernetes"),
    ],
)
async def test_a_wrong_configuration_is_one_line_and_exit_2(
    process: Process, environment: dict[str, str], named: str
) -> None:
    await process.spawn(**environment)

    assert await process.exited() == 2
    lines = [line for line in (await process.errors()).splitlines() if not line.startswith("{")]
    assert len(lines) == 1
    assert lines[0].startswith("mikan-gateway: ")
    assert named in lines[0]
    assert json.dumps(TOKEN) not in lines[0]
