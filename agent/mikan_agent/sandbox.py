"""The office's sandbox: whether this build can use its mode, and waiting for it while it starts.

Only a tool call waits for a sandbox, never an answer.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from mikan_agent.clock import Clock
from mikan_agent.exceptions import ToolError
from mikan_agent.executor.exceptions import ExecutorError
from mikan_agent.executor.ports import Executor
from mikan_agent.harness.responder import Responder
from mikan_api.sandbox_mode import SandboxMode

PATIENCE = 0.25
"""Seconds of waiting that need no word."""
STARTING = "starting the sandbox…"
EXPLAIN = 5.0
"""Seconds of waiting after which it is worth saying what is in the way."""
LOOK_EVERY = 1.0


class StartingExecutor(Executor, Protocol):
    """An executor whose sandbox may still be starting."""

    @property
    def obstacle(self) -> str:
        """Why it can't be reached yet; empty if nothing is known to be in the way."""

    async def connect(self) -> None:
        """Wait for the sandbox and open the stream; returns at once where it is open.

        Raises:
            ExecutorUnavailable: it does not come.
        """


class Sandbox:
    """Opens the executor when it is first needed, once for all runs that wait for it."""

    def __init__(self, mode: SandboxMode, make: Callable[[], StartingExecutor] | None, clock: Clock) -> None:
        """``make`` is ``None`` where this build has no executor for the mode."""
        self.mode = mode
        self._make, self._clock = make, clock
        self._executor: StartingExecutor | None = None
        self._connecting: asyncio.Task[None] | None = None

    @property
    def fault(self) -> str | None:
        """Why no command can ever run here; ``None``: one can."""
        if self._make is not None:
            return None
        return (
            f"The sandbox mode {self.mode} is not available in this version of mikan. "
            "An admin can set spec.sandbox.mode of this office to image:<image>."
        )

    @property
    def executor(self) -> StartingExecutor:
        """The executor, made when first asked for.

        Raises:
            ToolError: there is none for this mode.
        """
        if self._executor is None:
            if self._make is None:
                raise ToolError(self.fault or "There is no sandbox.")
            self._executor = self._make()
        return self._executor

    def warm(self) -> None:
        """Begin to connect, so that a first tool call finds it done."""
        if self._make is not None and self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)

    async def _connect(self) -> None:
        await self.executor.connect()

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # whoever waited has it; with nobody waiting the next call tries again

    async def ready(self, responder: Responder) -> None:
        """Wait for the sandbox; says so in the conversation where it takes a moment.

        Raises:
            ExecutorUnavailable: it does not come.
        """
        self.warm()
        connecting = self._connecting
        if connecting is None:
            raise ToolError(self.fault or "There is no sandbox.")
        telling = [asyncio.ensure_future(self._clock.sleep(PATIENCE))]
        try:
            await asyncio.wait({connecting, *telling}, return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                telling.append(asyncio.create_task(self._tell(responder)))
            await asyncio.shield(connecting)
        finally:
            for task in telling:
                task.cancel()
            await asyncio.gather(*telling, return_exceptions=True)
            await responder.working("")

    async def _tell(self, responder: Responder) -> None:
        """Say that it is waited for and, where that takes long, why."""
        await responder.working(STARTING)
        await self._clock.sleep(EXPLAIN - PATIENCE)
        while True:
            # What follows the colon is for the log and the model.
            obstacle = self.executor.obstacle.partition(": ")[0]
            await responder.working(f"waiting for the sandbox: {obstacle}" if obstacle else STARTING)
            await self._clock.sleep(LOOK_EVERY)

    async def aclose(self) -> None:
        """Let go of the sandbox, and end what still runs in it for us."""
        if self._connecting is not None:
            self._connecting.cancel()
            with suppress(asyncio.CancelledError, ExecutorError):
                await self._connecting
        if self._executor is not None:
            await self._executor.aclose()
