"""Code of an extension is called for a bounded time, and can take nothing else with it."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator

import pytest

from mikan_agent.extensions.calls import Caller
from mikan_agent.extensions.exceptions import Ended, StillRunning, TookTooLong

LONG, SHORT = 30.0, 0.05


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    made = Caller("test")
    yield made
    made.close()


async def add(a: int, b: int) -> int:
    return a + b


class AsyncCallable:
    async def __call__(self, value: int) -> int:
        return value + 1


async def test_coroutine_functions_run_on_the_loop(caller: Caller) -> None:
    async def where() -> str:
        return threading.current_thread().name

    assert await caller.call(add, 1, 2, seconds=LONG) == 3
    assert await caller.call(AsyncCallable(), 1, seconds=LONG) == 2
    assert await caller.call(where, seconds=LONG) == threading.current_thread().name


async def test_plain_functions_share_one_thread_of_the_extension(caller: Caller) -> None:
    names = [await caller.call(lambda: threading.current_thread().name, seconds=LONG) for _ in range(2)]

    assert names == ["extension test", "extension test"]


async def test_a_plain_function_may_give_an_awaitable(caller: Caller) -> None:
    assert await caller.call(lambda: add(2, 3), seconds=LONG) == 5


async def test_what_a_function_raises_is_raised(caller: Caller) -> None:
    def plain() -> None:
        raise KeyError("plain")

    async def coroutine() -> None:
        raise KeyError("coroutine")

    for function in (plain, coroutine):
        with pytest.raises(KeyError, match=function.__name__):
            await caller.call(function, seconds=LONG)


async def test_nothing_ends_the_process_or_the_callers_task(caller: Caller) -> None:
    async def exits() -> None:
        sys.exit(3)

    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    for function, fault in (
        (lambda: sys.exit(3), "SystemExit"),
        (exits, "SystemExit"),
        (cancels_itself, "cancelled itself"),
    ):
        with pytest.raises(Ended, match=fault):
            await caller.call(function, seconds=LONG)
    assert await caller.call(add, 1, 1, seconds=LONG) == 2


async def test_whatever_is_raised_is_an_error_of_this_call_and_the_next_one_is_made(caller: Caller) -> None:
    class Harsh(BaseException):
        pass

    async def harsh() -> None:
        raise Harsh

    with pytest.raises(Ended, match="raised Harsh"):
        await caller.call(harsh, seconds=LONG)
    with pytest.raises(Ended, match="raised StopIteration"):
        await caller.call(lambda: next(iter(())), seconds=LONG)
    assert await caller.call(lambda: 1, seconds=LONG) == 1


async def test_a_coroutine_that_hangs_is_cancelled_and_not_waited_for(caller: Caller) -> None:
    cancelled, ended = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            await ended.wait()  # will not go

    with pytest.raises(TookTooLong, match=r"did not end within 0\.05 s"):
        await caller.call(stubborn, seconds=SHORT)
    await cancelled.wait()
    assert await caller.call(add, 1, 1, seconds=LONG) == 2
    ended.set()


async def test_a_plain_function_that_hangs_blocks_only_the_extensions_plain_functions(caller: Caller) -> None:
    release = threading.Event()

    with pytest.raises(TookTooLong):
        await caller.call(release.wait, seconds=SHORT)
    with pytest.raises(StillRunning):
        await caller.call(lambda: 1, seconds=LONG)
    assert await caller.call(add, 1, 1, seconds=LONG) == 2

    release.set()
    assert await _until_free(caller) == 1


async def _until_free(caller: Caller) -> object:
    async with asyncio.timeout(20):
        while True:
            try:
                return await caller.call(lambda: 1, seconds=LONG)
            except StillRunning:
                await asyncio.sleep(0.01)


async def test_plain_functions_wait_for_their_turn(caller: Caller) -> None:
    order: list[int] = []
    await asyncio.gather(*(caller.call(order.append, n, seconds=LONG) for n in range(5)))

    assert order == [0, 1, 2, 3, 4]


async def test_a_call_that_is_cancelled_cancels_the_function(caller: Caller) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    task = asyncio.create_task(caller.call(waits, seconds=LONG))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cancelled.wait(), 20)
