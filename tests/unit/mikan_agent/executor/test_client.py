"""Waiting for a sandbox that is not there yet, in virtual time."""

from collections.abc import Callable
from pathlib import PurePosixPath

import pytest

from mikan_agent.executor import framing
from mikan_agent.executor.client import HelperExecutor
from mikan_agent.executor.exceptions import ExecutorUnavailable, NoSandbox
from mikan_agent.executor.framing import Kind
from mikan_agent.executor.local import HOST_CONFIG
from mikan_agent.executor.paths import PathContext
from mikan_agent.executor.streams import DuplexStream


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.sleeping: Callable[[], None] = lambda: None
        """Called with each pause."""

    async def sleep(self, seconds: float) -> None:
        """Move on."""
        self.sleeping()
        self.slept.append(seconds)
        self.now += seconds


class Greeting:
    """A stream that says something and ends."""

    def __init__(self, data: bytes) -> None:
        self._data = [data]

    async def read(self) -> bytes:
        """The next bytes."""
        return self._data.pop() if self._data else b""

    async def write(self, data: bytes) -> None:
        """Nobody listens."""

    async def aclose(self) -> None:
        """Nothing to close."""


class Attempts:
    """A dialer whose attempts go as told; the last one goes on for ever."""

    def __init__(self, *outcomes: Callable[[], DuplexStream]) -> None:
        self._outcomes = list(outcomes)
        self.count = 0

    async def dial(self) -> DuplexStream:
        """One attempt."""
        self.count += 1
        return (self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0])()


def refuse(reason: str) -> Callable[[], DuplexStream]:
    def attempt() -> DuplexStream:
        raise ExecutorUnavailable(reason)

    return attempt


def greet() -> DuplexStream:
    return Greeting(framing.build(Kind.HELLO, 0, b'{"protocol": 1, "version": "test"}'))


def executor(dialer: Attempts, time: Time) -> HelperExecutor:
    return HelperExecutor(
        dialer,
        HOST_CONFIG,
        PathContext(PurePosixPath("/workspace")),
        start_timeout=30,
        sleep=time.sleep,
        clock=lambda: time.now,
    )


async def test_waits_with_growing_pauses_and_says_why() -> None:
    time, said = Time(), list[str]()
    waiting = executor(Attempts(refuse("no pod"), refuse("no container"), lambda: Greeting(b""), greet), time)
    time.sleeping = lambda: said.append(waiting.obstacle)

    await waiting.connect()
    await waiting.aclose()

    assert said == ["no pod", "no container", "the stream to the sandbox helper ended before it said hello"]
    assert waiting.obstacle == ""
    assert time.slept == pytest.approx([0.03, 0.045, 0.0675])


async def test_gives_up_at_the_deadline_with_the_last_reason() -> None:
    time = Time()
    waiting = executor(Attempts(refuse("no pod")), time)

    with pytest.raises(ExecutorUnavailable, match="no pod"):
        await waiting.connect()

    assert 26 < time.now < 30
    assert max(time.slept) == 3.0


async def test_where_no_pod_is_there_yet_it_asks_once_a_second_from_the_start() -> None:
    def missing() -> DuplexStream:
        raise NoSandbox("no pod")

    time = Time()
    waiting = executor(Attempts(missing, missing, greet), time)

    await waiting.connect()
    await waiting.aclose()

    assert time.slept == [1.0, 1.0]


async def test_one_stream_serves_until_it_ends() -> None:
    dialer = Attempts(greet)
    waiting = executor(dialer, Time())

    await waiting.connect()
    await waiting.connect()

    assert dialer.count == 1
    await waiting.aclose()
