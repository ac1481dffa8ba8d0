"""What the model sees of a command's output: all of it, or its two ends with a marker and the whole kept in a file.

Memory stays below a few times the limit, however much is printed: what is cut off goes to the file as it comes.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from mikan_agent.executor.exceptions import ExecutorError
from mikan_agent.executor.ports import Executor, OutputStream

OUTPUT_LIMIT = 50_000
"""Bytes of output shown."""
_QUEUED = 16
"""Chunks that wait for the file; then the command is held up."""


@dataclass(frozen=True, slots=True)
class CappedOutput:
    """Output ready to be shown.

    Attributes:
        text: the output, undecodable bytes replaced, a marker where something was left out.
        total_bytes: what was printed in all.
        truncated: whether something was left out.
        path: where the whole output is, if it was left out and could be kept.
    """

    text: str
    total_bytes: int
    truncated: bool
    path: PurePosixPath | None


class OutputCollector:
    """Takes the chunks of one command, both streams in order of arrival; ``add`` is an ``OnOutput``.

    ``finish`` must be called, or ``aclose`` where its result is of no use; either stores the whole output.
    """

    def __init__(self, executor: Executor, path: str | PurePosixPath, limit: int = OUTPUT_LIMIT) -> None:
        self._executor = executor
        self._path = PurePosixPath(path)
        self._half = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._total = 0
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUED)
        self._writer: asyncio.Task[ExecutorError | None] | None = None
        self._given_up = False

    async def add(self, stream: OutputStream, chunk: bytes) -> None:
        """Take one chunk."""
        self._total += len(chunk)
        if self._writer is None and self._total > 2 * self._half:
            self._writer = asyncio.create_task(self._write())
            await self._keep(bytes(self._head))
            for part in self._tail:
                await self._keep(part)
        if self._writer is not None:
            await self._keep(chunk)
        self._remember(chunk)

    async def finish(self) -> CappedOutput:
        """The output as it can be shown, after the whole has been stored."""
        failure = await self._settle()
        tail = b"".join(self._tail)
        if self._writer is None:
            return CappedOutput(_decode(bytes(self._head) + tail), self._total, truncated=False, path=None)
        tail = tail[-self._half :]
        left_out = self._total - len(self._head) - len(tail)
        where = f"the whole output is in {self._path}" if failure is None else f"it could not be kept: {failure}"
        text = f"{_decode(bytes(self._head))}\n[... {left_out} bytes left out; {where} ...]\n{_decode(tail)}"
        return CappedOutput(text, self._total, truncated=True, path=self._path if failure is None else None)

    async def aclose(self) -> None:
        """Store what has come so far and let go."""
        await self._settle()

    def _remember(self, chunk: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if not chunk:
            return
        self._tail.append(chunk)
        self._tail_size += len(chunk)
        while self._tail_size - len(self._tail[0]) >= self._half:
            self._tail_size -= len(self._tail.popleft())

    async def _keep(self, chunk: bytes) -> None:
        if chunk and not self._given_up:
            await self._queue.put(chunk)

    async def _settle(self) -> ExecutorError | None:
        if self._writer is None:
            return None
        if not self._given_up:
            await self._queue.put(None)
        return await self._writer

    async def _write(self) -> ExecutorError | None:
        try:
            await self._executor.write_file(self._path, self._chunks())
        except ExecutorError as error:
            return error
        finally:
            self._given_up = True  # whoever waits for room gets it: the command goes on without its record
            while not self._queue.empty():
                self._queue.get_nowait()
        return None

    async def _chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._queue.get()) is not None:
            yield chunk


def _decode(data: bytes) -> str:
    return data.decode(errors="replace")
