"""Waiting for a sandbox: only where a tool needs it, said where it takes a moment, shared by all who wait."""

import asyncio

import pytest

from agent_peers.clock import VirtualClock, settle
from agent_peers.executor import MemoryExecutor
from mikan_agent.exceptions import ToolError
from mikan_agent.executor.exceptions import ExecutorUnavailable
from mikan_agent.harness.responder import Responder
from mikan_agent.outbox import Outbox
from mikan_agent.sandbox import EXPLAIN, PATIENCE, STARTING, Sandbox
from mikan_api.responder import ResponderOperation, Working
from mikan_api.sandbox_mode import parse_sandbox_mode

IMAGE = parse_sandbox_mode("image:test")


class StartingMemory(MemoryExecutor):
    """Connects when told, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.fault: ExecutorUnavailable | None = None
        self.in_the_way = ""

    @property
    def obstacle(self) -> str:
        return self.in_the_way

    async def connect(self) -> None:
        await super().connect()
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault


class Scene:
    """A sandbox, and the conversation of who waits for it."""

    def __init__(self) -> None:
        self.clock, self.outbox, self.executor = VirtualClock(), Outbox(), StartingMemory()
        self.sandbox = Sandbox(IMAGE, lambda: self.executor, self.clock)
        self.responder = Responder("r1", self.outbox, lambda _: None, self.clock)

    def said(self) -> list[ResponderOperation]:
        return [o.operation for o in self.outbox.pending()]


async def test_a_sandbox_that_is_there_is_not_worth_a_word() -> None:
    s = Scene()
    s.executor.gate.set()
    await s.sandbox.ready(s.responder)
    assert s.said() == []


async def test_a_sandbox_that_takes_its_time_is_announced_until_it_is_there() -> None:
    s = Scene()
    waiting = asyncio.create_task(s.sandbox.ready(s.responder))
    await s.clock.advance(PATIENCE)
    assert s.said() == [Working(label=STARTING)]
    s.executor.gate.set()
    await waiting
    assert s.said() == [Working(label=STARTING), Working()]


async def test_a_sandbox_that_takes_long_is_announced_with_what_is_in_the_way() -> None:
    s = Scene()
    s.executor.in_the_way = "the Kubernetes API server can't be reached: [Errno 111] 10.97.0.1"
    waiting = asyncio.create_task(s.sandbox.ready(s.responder))
    await s.clock.advance(EXPLAIN - 0.1)
    assert s.said() == [Working(label=STARTING)]
    await s.clock.advance(0.1)
    s.executor.in_the_way = "the sandbox s-x is not running (yet): no container"
    await s.clock.advance(60)
    s.executor.gate.set()
    await waiting
    assert [o.label for o in s.said() if isinstance(o, Working)] == [
        STARTING,
        "waiting for the sandbox: the Kubernetes API server can't be reached",
        "waiting for the sandbox: the sandbox s-x is not running (yet)",
        "",
    ]


async def test_all_who_wait_share_one_connection_and_one_who_leaves_ends_nothing() -> None:
    s = Scene()
    s.sandbox.warm()
    first, second = (asyncio.create_task(s.sandbox.ready(s.responder)) for _ in range(2))
    await settle()
    first.cancel()
    await asyncio.wait({first})
    s.executor.gate.set()
    await second
    assert s.executor.connects == 1


async def test_after_a_failure_the_next_call_tries_again() -> None:
    s = Scene()
    s.executor.gate.set()
    s.executor.fault = ExecutorUnavailable("the pod cannot pull its image")
    with pytest.raises(ExecutorUnavailable, match="cannot pull"):
        await s.sandbox.ready(s.responder)
    s.executor.fault = None
    await s.sandbox.ready(s.responder)
    assert s.executor.connects == 2


async def test_a_mode_without_executor_says_what_to_do() -> None:
    s = Scene()
    sandbox = Sandbox(parse_sandbox_mode("container:tools"), None, s.clock)
    assert sandbox.fault is not None
    assert "container:tools is not available" in sandbox.fault
    with pytest.raises(ToolError, match="not available"):
        await sandbox.ready(s.responder)
