"""An Executor over a bridge that can only run a program and return what it printed.

Everything travels as arguments and as base64 in short answers, each of which says how long it must be: a bridge that
loses output is noticed. The sandbox needs a POSIX shell, ``base64``, ``mktemp``, ``head``, ``tail``, ``stat``
and ``/proc``, all of which busybox has.
"""

import asyncio
import base64
import binascii
import re
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from mikan_agent.executor import scripts
from mikan_agent.executor.exceptions import (
    ConnectionLost,
    ExecutorError,
    InvalidRequest,
    ProtocolViolation,
    TooLarge,
    refusal,
)
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
    FileType,
    OnOutput,
    OutputStream,
    StrPath,
)

READ_CHUNK = 768 * 1024
WRITE_CHUNK = 72 * 1024
"""Bytes whose base64 is an argument; Linux takes 128 KiB."""
_ARGUMENT_LIMIT = 128 * 1024 - 1
_KILL_PAUSE = 0.2
_KILL_ROUNDS = 25
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class BridgeReply:
    """What a program printed, and its exit code."""

    stdout: bytes
    exit_code: int


class CommandBridge(Protocol):
    """Runs programs in a sandbox. Several calls may run at once."""

    async def run(self, argv: Sequence[str]) -> BridgeReply:
        """Run one to its end.

        Raises:
            ExecutorUnavailable: it was not started.
            ConnectionLost: the outcome is unknown.
        """
        ...


class ExecOnlyExecutor(PlacedExecutor):
    """Executor over a CommandBridge. Output comes when a command has ended, not while it runs.

    A run's processes are found by their environment alone.
    """

    def __init__(self, bridge: CommandBridge, config: ExecutorConfig, path_context: PathContext) -> None:
        super().__init__(config, path_context)
        self._bridge = bridge
        self._runs: dict[ExecId, _Run] = {}

    async def exec(self, request: ExecRequest, on_output: OnOutput | None = None) -> ExecResult:
        """Run a command to its end; see Executor."""
        directory = await self._call(scripts.PREPARE)
        try:
            if request.stdin is not None:
                await self._append_all(f"{directory}/in", in_chunks(request.stdin))
            return await self._run(request, directory, on_output)
        finally:
            await asyncio.shield(asyncio.ensure_future(self._remove(directory)))

    async def kill(self, exec_id: ExecId, grace: float = DEFAULT_GRACE) -> bool:
        """End a run; see Executor."""
        run = self._runs.get(exec_id)
        if run is None:
            return False
        run.killed = True
        await self._kill(run, grace)
        return True

    async def read_file(self, path: StrPath, offset: int = 0, limit: int | None = None) -> bytes:
        """The content of a file; see Executor."""
        if offset < 0 or (limit is not None and limit < 0):
            raise InvalidRequest("negative offset or limit")
        bound = READ_LIMIT + 1 if limit is None else min(limit, READ_LIMIT + 1)
        data = b"".join([chunk async for chunk in self._read(self._absolute(path), offset, bound)])
        if len(data) > READ_LIMIT:
            raise TooLarge(f"more than {READ_LIMIT} bytes; read it in parts")
        return data

    async def write_file(
        self, path: StrPath, data: bytes | AsyncIterable[bytes], mode: int | None = None, parents: bool = True
    ) -> None:
        """Replace a file; see Executor."""
        wanted = (self._absolute(path), "yes" if parents else "no", secrets.token_hex(8))
        old_mode, *encoded = (await self._call(scripts.STAGE, *wanted)).split(" ")
        if len(encoded) != 2:
            raise ProtocolViolation("the sandbox's answer makes no sense")
        stage, target = (_decode(name).decode(errors="surrogateescape") for name in encoded)
        try:
            await self._append_all(stage, in_chunks(data))
            await self._call(scripts.COMMIT, stage, target, old_mode if mode is None else f"{mode & 0o777:o}")
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(self._remove(stage)))
            raise

    async def stat(self, path: StrPath, follow: bool = True) -> FileStat:
        """What stands at a path; see Executor."""
        answer = await self._call(scripts.STAT, "yes" if follow else "no", self._absolute(path))
        try:
            kind, size, mode, seconds = answer.split(" ")
            return FileStat(FileType(kind), int(size), int(mode, 8) & 0o777, int(seconds) * 1_000_000_000)
        except ValueError as error:
            raise ProtocolViolation("the sandbox's answer makes no sense") from error

    async def aclose(self) -> None:
        """End everything that still runs."""
        for run in list(self._runs.values()):
            run.killed = True
            await self._kill(run, DEFAULT_GRACE)

    async def _run(self, request: ExecRequest, directory: str, on_output: OnOutput | None) -> ExecResult:
        run_id = secrets.token_hex(16)
        run = _Run(run_id, asyncio.ensure_future(self._call(scripts.RUN, *self._arguments(request, directory, run_id))))
        self._runs[request.exec_id] = run
        try:
            done, _ = await asyncio.wait({run.ended}, timeout=request.timeout)
            if not done:
                await self._kill(run, request.grace)
            result = _result(await run.ended, run, timed_out=not done)
            return await self._deliver(result, request, directory, on_output)
        except BaseException:
            if not run.ended.done():
                await asyncio.shield(asyncio.ensure_future(self._kill(run, request.grace)))
            raise
        finally:
            self._runs.pop(request.exec_id, None)

    def _arguments(self, request: ExecRequest, directory: str, run_id: str) -> list[str]:
        if not all(_VARIABLE.fullmatch(name) for name in request.env):
            raise InvalidRequest("a shell can't take a variable of that name")
        variables = [f"{name}={value}" for name, value in request.env.items()]
        kind, argv = ("argv", request.argv) if request.command is None else ("command", [request.command])
        return [run_id, directory, self._absolute(request.cwd), kind, str(len(variables)), *variables, *argv]

    async def _kill(self, run: "_Run", grace: float) -> None:
        """End a run, which may not even have begun yet."""
        for _ in range(_KILL_ROUNDS):
            survivors = await self._call(scripts.KILL, run.run_id, str(max(0, round(grace * 20))))
            run.survivors = _number(survivors)
            done, _ = await asyncio.wait({run.ended}, timeout=_KILL_PAUSE)
            if done or run.survivors:
                return
        run.ended.cancel()
        raise ConnectionLost("the command could be neither found nor ended")

    async def _deliver(
        self, result: ExecResult, request: ExecRequest, directory: str, on_output: OnOutput | None
    ) -> ExecResult:
        kept: list[bytes] = []
        for stream, size in (
            (OutputStream.STDOUT, result.stdout_bytes),
            (OutputStream.STDERR, result.stderr_bytes),
        ):
            if on_output is None and size > request.capture_limit:
                raise TooLarge(f"the command printed more than {request.capture_limit} bytes")
            arrived = 0
            chunks: list[bytes] = []
            async for chunk in self._read(f"{directory}/{'out' if stream is OutputStream.STDOUT else 'err'}", 0, size):
                arrived += len(chunk)
                if on_output is None:
                    chunks.append(chunk)
                else:
                    await on_output(stream, chunk)
            if arrived != size:
                raise ProtocolViolation("the output of the command arrived incomplete")
            kept.append(b"".join(chunks))
        return replace(result, stdout=kept[0], stderr=kept[1])

    async def _read(self, path: str, offset: int, count: int) -> AsyncIterator[bytes]:
        while count > 0:
            wanted = min(READ_CHUNK, count)
            chunk = _decode(await self._call(scripts.READ, path, str(offset), str(wanted)))
            if len(chunk) > wanted:
                raise ProtocolViolation("the sandbox's answer makes no sense")
            if chunk:
                yield chunk
            offset, count = offset + len(chunk), count - len(chunk)
            if len(chunk) < wanted:
                return

    async def _append_all(self, path: str, chunks: AsyncIterator[bytes]) -> None:
        sent = 0
        async for chunk in chunks:
            for start in range(0, len(chunk), WRITE_CHUNK):
                part = chunk[start : start + WRITE_CHUNK]
                sent += len(part)
                if await self._call(scripts.APPEND, path, base64.b64encode(part).decode()) != str(sent):
                    raise ProtocolViolation("the file was written incomplete")

    async def _remove(self, path: str) -> None:
        with suppress(ExecutorError):  # what it belongs to has succeeded or failed already
            await self._call(scripts.REMOVE, path)

    async def _call(self, script: str, *arguments: str) -> str:
        """Run a script and check its answer.

        Raises:
            RequestRefused: the script says why.
            ProtocolViolation: the answer is not whole.
        """
        for argument in arguments:
            _check_argument(argument)
        reply = await self._bridge.run(scripts.invocation(script, *arguments))
        lines = reply.stdout.decode(errors="replace").removesuffix("\n").split("\n")
        body = "\n".join(lines[1:-1])
        if reply.exit_code != 0 or len(lines) < 3 or lines[-1] != f"end {len(body)}":
            raise ProtocolViolation("the sandbox's answer arrived incomplete")
        if lines[0] != "ok":
            raise refusal(lines[0].removeprefix("error "), body)
        return body

    def _absolute(self, path: StrPath) -> str:
        """Never begins with a dash. Joined as text: pathlib would drop a final slash."""
        text = str(path)
        return text if text.startswith("/") else f"{self.workspace_path}/{text}"


@dataclass(slots=True)
class _Run:
    run_id: str
    ended: asyncio.Future[str]
    killed: bool = False
    survivors: int = 0


def _result(answer: str, run: _Run, timed_out: bool) -> ExecResult:
    numbers = [_number(word) for word in answer.split(" ")]
    if len(numbers) != 3:
        raise ProtocolViolation("the sandbox's answer makes no sense")
    code, stdout_bytes, stderr_bytes = numbers
    return ExecResult(
        exit_code=code,
        signal=code - 128 if (timed_out or run.killed) and code > 128 else None,
        timed_out=timed_out,
        killed=run.killed,
        survivors=run.survivors,
        stdout_bytes=stdout_bytes,
        stderr_bytes=stderr_bytes,
    )


def _check_argument(argument: str) -> None:
    try:
        size = len(argument.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        raise InvalidRequest("a name or argument is not text that can be encoded") from error
    if "\0" in argument:
        raise InvalidRequest("a name or argument has a NUL character")
    if size > _ARGUMENT_LIMIT:
        raise TooLarge("an argument is longer than Linux passes to a program (128 KiB)")


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ProtocolViolation("the sandbox's answer makes no sense") from error


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error as error:
        raise ProtocolViolation("the sandbox's answer makes no sense") from error
