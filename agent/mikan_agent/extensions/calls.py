"""Calls into an extension's code, each for a bounded time.

A coroutine function runs on the event loop, which it must not block. A plain function runs in a thread that the
extension has for itself, one after another: it may block for its time and take nothing else with it, and what it
opened stays in one thread. Code that goes on after its time can't be ended: it is let go of, and while it blocks the
thread the extension's plain functions fail at once.
"""

import asyncio
import inspect
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any

from mikan_agent.extensions.exceptions import Ended, StillRunning, TookTooLong

GRACE = 1.0
"""Seconds that a function has to clean up when its call is cancelled, where it has no limit of its own."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that functions of an extension may take."""

    activate: float = 30.0
    """Importing, and then activating."""
    hook: float = 10.0
    command: float = 60.0
    dispose: float = 10.0


class Caller:
    """Calls one extension's functions."""

    def __init__(self, name: str) -> None:
        self._thread = _Thread(f"extension {name}")
        self._turn = asyncio.Lock()
        self._in_thread: asyncio.Future[Any] | None = None
        self._abandoned: set[asyncio.Task[Any]] = set()

    async def call(self, function: Callable[..., Any], *arguments: Any, seconds: float | None) -> Any:
        """Call a function, plain or coroutine, and return its result.

        Args:
            function: the extension's.
            arguments: for it.
            seconds: that it has; ``None`` leaves it to whoever cancels this call, which waits `GRACE` for its end.

        Raises:
            TookTooLong: it did not end in time; a coroutine is cancelled and not waited for.
            StillRunning: a plain function that took too long before still runs.
            Ended: it raised what would end the process.
            Exception: whatever it raised.
        """
        task = asyncio.create_task(self._guarded(function, arguments))
        try:
            done, _ = await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            self._abandon(task)
            if seconds is None:
                await asyncio.wait({task}, timeout=GRACE)
            raise
        if not done:
            self._abandon(task)
            raise TookTooLong(f"did not end within {seconds:g} s")
        if task.cancelled():
            raise Ended("cancelled itself")
        return task.result()

    def close(self) -> None:
        """Let the thread end when it has nothing left to do."""
        self._thread.close()

    def _abandon(self, task: asyncio.Task[Any]) -> None:
        task.cancel()
        self._abandoned.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # nobody waits for it any more

    async def _guarded(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            result = function(*arguments) if is_async(function) else await self._plain(function, arguments)
            return await result if inspect.isawaitable(result) else result
        except (Exception, asyncio.CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001  nothing of an extension ends the process
            raise Ended(f"raised {type(error).__name__}") from None

    async def _plain(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        async with self._turn:
            if self._in_thread is not None and not self._in_thread.done():
                raise StillRunning("an earlier function of this extension has not ended yet")
            self._in_thread = self._thread.submit(function, arguments)
            return await asyncio.shield(self._in_thread)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it makes a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004  an object whose call is a coroutine function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


@dataclass(frozen=True, slots=True)
class _Job:
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    context: Context
    result: asyncio.Future[Any]

    def run(self) -> None:
        try:
            value = self.context.run(self.function, *self.arguments)
        except StopIteration:  # which no future takes
            self._tell(self.result.set_exception, Ended("raised StopIteration"))
        except Exception as error:  # noqa: BLE001  for whoever waits to deal with
            self._tell(self.result.set_exception, error)
        except BaseException as error:  # noqa: BLE001  likewise; nothing of an extension ends the process
            self._tell(self.result.set_exception, Ended(f"raised {type(error).__name__}"))
        else:
            self._tell(self.result.set_result, value)

    def _tell(self, settle: Callable[[Any], None], value: object) -> None:
        def unless_done() -> None:
            if not self.result.done():
                settle(value)

        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self.result.get_loop().call_soon_threadsafe(unless_done)


class _Thread:
    """A thread that is started when it is first needed, and never keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._started = False

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Run a function after those before it."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        result.add_done_callback(_seen)
        self._jobs.put(_Job(function, arguments, copy_context(), result))
        return result

    def close(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()


def _seen(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
