"""A process that is started again whenever it ends."""

import asyncio
import signal
from pathlib import Path

from forked import Forked, Mother
from mikan_api.kill_points import VARIABLE

KILLED = -signal.SIGKILL


class Supervised:
    """A process and its lives; armed with a kill point in the first of them only."""

    def __init__(self, mother: Mother, environment: dict[str, str], log: Path, point: str = "") -> None:
        self._mother, self._environment, self._log = mother, environment, log
        self._armed = {VARIABLE: point} if point else {}
        self._task: asyncio.Task[None] | None = None
        self._process: Forked | None = None
        self._ending = False
        self._stopping = False
        self.ends: list[int] = []
        """How each of its lives ended that nobody ended here."""
        self.ended = asyncio.Event()
        """Set once a life has ended by itself."""

    @property
    def lives(self) -> str:
        """How it fares, for whoever looks for a fault."""
        now = self._process and f"pid {self._process.pid}, code {self._process.returncode}"
        return f"ended by itself {self.ends}, now {now}"

    @property
    def pid(self) -> int:
        """Of the life that it leads now."""
        assert self._process
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        """Send the life that it leads now a signal that does not end it."""
        assert self._process
        self._process.send(number)

    def start(self) -> None:
        """Begin, or begin again."""
        self._stopping = False
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End it for good, and a life that is about to begin."""
        self._stopping = True
        while self._task is not None and not self._task.done():
            if self._process is not None:
                await self._process.end()
            await asyncio.wait([self._task], timeout=0.05)

    async def restart(self) -> None:
        """End this life; the next one follows."""
        assert self._process
        self._ending = True
        await self._process.end()

    async def _run(self) -> None:
        while not self._stopping:
            self._process = await self._mother.fork(self._environment | self._armed, self._log)
            code = await self._process.wait()
            self._armed = {}
            if self._ending or self._stopping:
                self._ending = False
                continue
            self.ends.append(code)
            self.ended.set()
