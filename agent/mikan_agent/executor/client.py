"""The Executor that talks to a sandbox helper, over whatever stream a Dialer opens."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import replace

from mikan_agent.executor import framing
from mikan_agent.executor.connection import SILENCE, Connection, Exchange
from mikan_agent.executor.exceptions import ConnectionLost, ExecutorUnavailable, ProtocolViolation, TooLarge
from mikan_agent.executor.framing import Frame, Kind
from mikan_agent.executor.paths import PathContext
from mikan_agent.executor.placed import PlacedExecutor, in_chunks
from mikan_agent.executor.ports import (
    DEFAULT_GRACE,
    READ_LIMIT,
    ExecId,
    ExecRequest,
    ExecResult,
    ExecutorConfig,
    FileStat,
    OnOutput,
    OutputStream,
    StrPath,
)
from mikan_agent.executor.streams import Dialer

START_TIMEOUT = 60.0
"""Seconds to wait for a sandbox that is still starting."""
_FIRST_DELAY = 0.03
_MOST_DELAY = 3.0
"""Each try costs the API server a handshake; a wait is this much longer at most, and a third at first."""
_KILL_BOUND = 8.0
"""Seconds beyond the grace within which the helper has ended a run or will never have."""


class HelperExecutor(PlacedExecutor):
    """Executor over a helper. Opens its stream at first use, and again after a loss."""

    def __init__(
        self,
        dialer: Dialer,
        config: ExecutorConfig,
        path_context: PathContext,
        *,
        start_timeout: float = START_TIMEOUT,
        silence: float = SILENCE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(config, path_context)
        self._dialer = dialer
        self._start_timeout = start_timeout
        self._silence = silence
        self._sleep = sleep
        self._clock = clock
        self._connection: Connection | None = None
        self._dialing = asyncio.Lock()
        self._runs: dict[ExecId, Exchange] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._closed = False
        self.obstacle = ""
        """Why the sandbox can't be reached yet; empty while nothing is in the way."""

    async def connect(self) -> None:
        """Open the stream ahead of its first use, waiting for a sandbox that is still starting.

        Raises:
            ExecutorUnavailable: not within ``start_timeout``; the message says why.
        """
        await self._connected()

    async def exec(self, request: ExecRequest, on_output: OnOutput | None = None) -> ExecResult:
        """Run a command to its end; see Executor."""
        exchange = await self._exchange(Kind.EXEC, framing.exec_payload(request))
        self._runs[request.exec_id] = exchange
        feeder = None
        try:
            await exchange.start()
            if request.stdin is not None:
                feeder = asyncio.create_task(_feed(exchange, request))
            return await _collect(exchange, request, on_output, feeder)
        except BaseException:
            await self._end(exchange, Kind.KILL, framing.kill_payload(request.grace), request.grace + _KILL_BOUND)
            raise
        finally:
            self._runs.pop(request.exec_id, None)
            if feeder is not None:
                feeder.cancel()
                await asyncio.gather(feeder, return_exceptions=True)

    async def kill(self, exec_id: ExecId, grace: float = DEFAULT_GRACE) -> bool:
        """End a run; see Executor."""
        exchange = self._runs.get(exec_id)
        if exchange is None or exchange.finished:
            return False
        await exchange.send(Kind.KILL, framing.kill_payload(grace))
        return True

    async def read_file(self, path: StrPath, offset: int = 0, limit: int | None = None) -> bytes:
        """The content of a file; see Executor."""
        bound = READ_LIMIT + 1 if limit is None else min(limit, READ_LIMIT + 1)
        exchange = await self._exchange(Kind.READ, framing.read_payload(path, offset, bound))
        chunks: list[bytes] = []
        try:
            await exchange.start()
            while (frame := await exchange.next()).kind is Kind.DATA:
                chunks.append(frame.payload)
        except BaseException:
            await self._end(exchange, Kind.ABORT)
            raise
        done = _done(frame)
        data = b"".join(chunks)
        if len(data) != done.bytes:
            raise ProtocolViolation("the file arrived incomplete")
        if len(data) > READ_LIMIT:
            raise TooLarge(f"more than {READ_LIMIT} bytes; read it in parts")
        return data

    async def write_file(
        self, path: StrPath, data: bytes | AsyncIterable[bytes], mode: int | None = None, parents: bool = True
    ) -> None:
        """Replace a file; see Executor."""
        exchange = await self._exchange(Kind.WRITE, framing.write_payload(path, mode, parents))
        sent = 0
        try:
            await exchange.start()
            async for chunk in in_chunks(data):
                if not await exchange.send_input(chunk):
                    break
                sent += len(chunk)
            else:
                await exchange.send(Kind.COMMIT, framing.commit_payload(sent))
            done = _done(await exchange.next())
        except BaseException:
            await self._end(exchange, Kind.ABORT)
            raise
        if done.bytes != sent:
            raise ProtocolViolation("the file was written incomplete")

    async def stat(self, path: StrPath, follow: bool = True) -> FileStat:
        """What stands at a path; see Executor."""
        exchange = await self._exchange(Kind.STAT, framing.stat_payload(path, follow))
        try:
            await exchange.start()
            return _done(await exchange.next()).stat
        except BaseException:
            await self._end(exchange, Kind.ABORT)
            raise

    async def aclose(self) -> None:
        """Close the stream, which ends everything that still runs over it."""
        self._closed = True
        if self._connection is not None:
            await self._connection.aclose()
        await asyncio.gather(*self._endings, return_exceptions=True)

    async def _exchange(self, kind: Kind, payload: bytes) -> Exchange:
        return (await self._connected()).open_exchange(kind, payload)

    async def _connected(self) -> Connection:
        if self._connection is not None and self._connection.alive:
            return self._connection
        async with self._dialing:
            if self._connection is None or not self._connection.alive:
                self._connection = await self._open()
            return self._connection

    async def _open(self) -> Connection:
        clock = self._clock or asyncio.get_running_loop().time
        deadline = clock() + self._start_timeout
        delay = _FIRST_DELAY
        while True:
            if self._closed:
                raise ExecutorUnavailable("this executor has been closed")
            try:
                connection = await Connection.greet(await self._dialer.dial(), self._silence)
            except ExecutorUnavailable as error:
                self.obstacle, pause = str(error), max(delay, error.wait)
                if clock() + pause >= deadline:
                    raise
            else:
                self.obstacle = ""
                return connection
            await self._sleep(pause)
            delay = min(delay * 1.5, _MOST_DELAY)

    async def _end(self, exchange: Exchange, kind: Kind, payload: bytes = b"", bound: float = _KILL_BOUND) -> None:
        """End an abandoned request and wait until the helper has; a second cancellation leaves that to a task."""
        task = asyncio.create_task(_finish(exchange, kind, payload, bound))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        await asyncio.shield(task)


async def _finish(exchange: Exchange, kind: Kind, payload: bytes, bound: float) -> None:
    if exchange.finished:
        return
    try:
        async with asyncio.timeout(bound):
            await exchange.send(kind, payload)
            while (await exchange.next()).kind in framing.DATA_KINDS:
                continue
    except (ConnectionLost, TimeoutError):
        return  # the caller already has an error; a lost stream ends the run at the other side


async def _feed(exchange: Exchange, request: ExecRequest) -> None:
    """Send the whole input; where it can't be had, the command that waits for it is ended."""
    try:
        async for chunk in in_chunks(request.stdin or b""):
            if not await exchange.send_input(chunk):
                return
        await exchange.send(Kind.INPUT_END)
    except Exception:
        if not exchange.finished:
            await exchange.send(Kind.KILL, framing.kill_payload(request.grace))
        raise


async def _collect(
    exchange: Exchange, request: ExecRequest, on_output: OnOutput | None, feeder: "asyncio.Task[None] | None"
) -> ExecResult:
    kept: dict[OutputStream, list[bytes]] = {OutputStream.STDOUT: [], OutputStream.STDERR: []}
    counts = {OutputStream.STDOUT: 0, OutputStream.STDERR: 0}
    while (frame := await exchange.next()).kind in (Kind.STDOUT, Kind.STDERR):
        stream = OutputStream.STDOUT if frame.kind is Kind.STDOUT else OutputStream.STDERR
        counts[stream] += len(frame.payload)
        if on_output is not None:
            await on_output(stream, frame.payload)
            continue
        if counts[stream] > request.capture_limit:
            raise TooLarge(f"the command printed more than {request.capture_limit} bytes")
        kept[stream].append(frame.payload)
    result = _exit(frame)
    if feeder is not None and feeder.done() and not feeder.cancelled() and (error := feeder.exception()) is not None:
        raise error
    if counts != {OutputStream.STDOUT: result.stdout_bytes, OutputStream.STDERR: result.stderr_bytes}:
        raise ProtocolViolation("the output of the command arrived incomplete")
    stdout, stderr = (b"".join(chunks) for chunks in kept.values())
    return replace(result, stdout=stdout, stderr=stderr)


def _exit(frame: Frame) -> ExecResult:
    if frame.kind is Kind.ERROR:
        raise framing.parse_error(frame.payload)
    if frame.kind is not Kind.EXIT:
        raise ProtocolViolation("the sandbox helper gave an answer to another question")
    return framing.parse_exit(frame.payload).result


def _done(frame: Frame) -> framing.Done:
    if frame.kind is Kind.ERROR:
        raise framing.parse_error(frame.payload)
    if frame.kind is not Kind.DONE:
        raise ProtocolViolation("the sandbox helper gave an answer to another question")
    return framing.parse_done(frame.payload)
