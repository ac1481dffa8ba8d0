"""A stream that is cut, wherever it is cut, is an error and never a short answer."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path, PurePosixPath

import pytest

from mikan_agent.executor import (
    ConnectionLost,
    ExecOnlyExecutor,
    ExecRequest,
    ExecutorError,
    ExecutorUnavailable,
    HelperExecutor,
    LocalHelper,
    PathContext,
    ProtocolViolation,
)
from mikan_agent.executor.connection import SILENCE
from mikan_agent.executor.local import HOST_CONFIG
from mikan_agent.executor.streams import Dialer, DuplexStream

Until = Callable[[Callable[[], bool]], Awaitable[None]]
StartHelper = Callable[..., AbstractAsyncContextManager[LocalHelper]]
OUTPUT = b"0123456789" * 8
COMMAND = ExecRequest(command=f"printf {OUTPUT.decode()}; printf {OUTPUT.decode()} >&2", grace=0.2)


class CutStream:
    """Passes ``down`` bytes from the helper and ``up`` bytes to it, one small piece at a time, then is cut."""

    def __init__(self, stream: DuplexStream, down: int, up: int, broken: bool) -> None:
        self._stream = stream
        self._down = down
        self._up = up
        self._broken = broken
        self._rest = b""

    async def read(self) -> bytes:
        """The next piece."""
        if self._down == 0:
            if self._broken:
                raise ConnectionLost("cut")
            return b""
        data = self._rest or await self._stream.read()
        piece, self._rest = data[: min(7, self._down)], data[min(7, self._down) :]
        self._down -= len(piece)
        return piece

    async def write(self, data: bytes) -> None:
        """Send what still passes."""
        passed, self._up = data[: self._up], max(0, self._up - len(data))
        if passed:
            await self._stream.write(passed)
        if len(passed) < len(data):
            await self._stream.aclose()
            raise ConnectionLost("cut")

    async def aclose(self) -> None:
        """Close what is left."""
        await self._stream.aclose()


class CutDialer:
    """Opens CutStreams."""

    def __init__(self, dialer: Dialer, down: int = 1 << 30, up: int = 1 << 30, broken: bool = False) -> None:
        self._dialer = dialer
        self._limits = (down, up, broken)

    async def dial(self) -> DuplexStream:
        """Open one."""
        return CutStream(await self._dialer.dial(), *self._limits)


def over(dialer: Dialer, silence: float = SILENCE) -> HelperExecutor:
    return HelperExecutor(dialer, HOST_CONFIG, PathContext(PurePosixPath("/")), start_timeout=0, silence=silence)


async def started(helper: LocalHelper) -> None:
    probe = helper.executor()
    await probe.connect()
    await probe.aclose()


async def outcomes(helper: LocalHelper, dialers: list[CutDialer]) -> list[bytes | type[ExecutorError]]:
    """Of the command, once over each dialer: its output if it came whole, else the error."""
    found: list[bytes | type[ExecutorError]] = []
    for dialer in dialers:
        executor = over(dialer)
        try:
            result = await executor.exec(COMMAND)
        except ExecutorError as error:
            found.append(type(error))
        else:
            assert (result.exit_code, result.stderr) == (0, result.stdout)
            found.append(result.stdout)
        await executor.aclose()
    return found


@pytest.mark.parametrize("broken", [False, True], ids=["ended", "broken"])
async def test_cut_at_every_byte_from_the_helper(start_helper: StartHelper, broken: bool) -> None:
    async with start_helper() as helper:
        await started(helper)
        found = await outcomes(helper, [CutDialer(helper.dialer, down=n, broken=broken) for n in range(460)])

    first_lost, first_whole = found.index(ConnectionLost), found.index(OUTPUT)
    assert set(found[:first_lost]) == {ExecutorUnavailable}  # before hello nothing was started
    assert set(found[first_lost:first_whole]) == {ConnectionLost}
    # The exit frame's length varies with nothing, so from here on every cut comes after the end.
    assert set(found[first_whole:]) == {OUTPUT}


async def test_cut_at_every_byte_to_the_helper(start_helper: StartHelper) -> None:
    async with start_helper() as helper:
        await started(helper)
        found = await outcomes(helper, [CutDialer(helper.dialer, up=n) for n in range(500)])

    first_whole = found.index(OUTPUT)
    assert set(found[:first_whole]) == {ConnectionLost}
    assert set(found[first_whole:]) == {OUTPUT}


async def test_write_that_is_cut_leaves_the_target(start_helper: StartHelper, workspace: Path, until: Until) -> None:
    target = workspace / "f"
    target.write_bytes(b"before")
    async with start_helper() as helper:
        await started(helper)
        for up in range(0, 400, 9):
            executor = over(CutDialer(helper.dialer, up=up))
            with pytest.raises(ConnectionLost):
                await executor.write_file(str(target), bytes(1000))
            await executor.aclose()

        await until(lambda: os.listdir(workspace) == ["f"])

    assert target.read_bytes() == b"before"


async def test_lost_client_ends_what_it_ran(start_helper: StartHelper, workspace: Path, until: Until) -> None:
    async with start_helper() as helper:
        executor = helper.executor()
        running = asyncio.create_task(
            executor.exec(ExecRequest(command="echo $$ >pid; setsid sleep 600 & sleep 600", cwd=str(workspace)))
        )
        await until(lambda: (workspace / "pid").exists() and (workspace / "pid").read_text() != "")
        process = Path("/proc", (workspace / "pid").read_text().strip())

        await executor.aclose()

        with pytest.raises(ConnectionLost):
            await running
        await until(lambda: not process.exists())


async def test_dead_helper_is_an_error_and_a_new_one_is_found(start_helper: StartHelper, helper_binary: Path) -> None:
    async with start_helper() as helper:
        executor = helper.executor()
        begun = asyncio.Event()

        async def heard(stream: object, chunk: bytes) -> None:
            begun.set()

        running = asyncio.create_task(executor.exec(ExecRequest(command="echo begun; sleep 600"), heard))
        await begun.wait()
        os.kill(helper.pid, signal.SIGKILL)

        with pytest.raises(ConnectionLost):
            await running
    async with start_helper():
        assert (await executor.exec(ExecRequest(command="echo again"))).stdout == b"again\n"
        await executor.aclose()


async def test_command_cut_off_by_the_end_of_the_helper_is_no_result(start_helper: StartHelper) -> None:
    async with start_helper() as helper:
        executor = helper.executor()
        with pytest.raises(ConnectionLost):
            await executor.exec(ExecRequest(command=f"kill -TERM {helper.pid}; sleep 600"))
        await executor.aclose()


async def test_helper_that_falls_silent_is_given_up(start_helper: StartHelper) -> None:
    async with start_helper() as helper:
        await started(helper)
        executor = over(helper.dialer, silence=0.5)
        await executor.connect()
        os.kill(helper.pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(10):
                with pytest.raises(ConnectionLost, match="stopped answering"):
                    await executor.exec(ExecRequest(command="true"))
        finally:
            os.kill(helper.pid, signal.SIGCONT)
        await executor.aclose()


async def test_silent_command_is_not_given_up(start_helper: StartHelper) -> None:
    async with start_helper() as helper:
        await started(helper)
        executor = over(helper.dialer, silence=0.5)

        assert (await executor.exec(ExecRequest(command="sleep 1.6; echo done"))).stdout == b"done\n"
        await executor.aclose()


async def test_no_helper_is_unavailable(directory: Path) -> None:
    executor = over(LocalHelper("/nowhere", directory, directory).dialer)

    with pytest.raises(ExecutorUnavailable, match="does not answer"):
        await executor.exec(ExecRequest(command="true"))


async def test_closed_executor_starts_nothing(start_helper: StartHelper) -> None:
    async with start_helper() as helper:
        executor = helper.executor()
        await executor.aclose()

        with pytest.raises(ExecutorUnavailable, match="closed"):
            await executor.exec(ExecRequest(command="true"))


async def test_slow_reader_holds_up_its_own_command_only(start_helper: StartHelper) -> None:
    async with start_helper() as helper:
        executor = helper.executor()
        release = asyncio.Event()
        flooded = 0

        async def stuck(stream: object, chunk: bytes) -> None:
            nonlocal flooded
            await release.wait()
            flooded += len(chunk)

        flood = asyncio.create_task(executor.exec(ExecRequest(command="head -c 50000000 /dev/zero"), stuck))
        async with asyncio.timeout(10):
            others = await asyncio.gather(*(executor.exec(ExecRequest(command="seq 1000")) for _ in range(10)))
        assert {result.stdout_bytes for result in others} == {3893}
        assert not flood.done()

        release.set()
        assert (await flood).stdout_bytes == flooded == 50_000_000
        await executor.aclose()


AlteredBridge = Callable[[Callable[[bytes], bytes]], ExecOnlyExecutor]


@pytest.mark.parametrize("lost", [2, 5, 8])
async def test_bridge_that_loses_the_end_is_an_error(altered_bridge: AlteredBridge, lost: int) -> None:
    with pytest.raises(ProtocolViolation):
        await altered_bridge(lambda answer: answer[:-lost].rstrip(b"\n")).exec(COMMAND)


async def test_bridge_that_loses_the_middle_is_an_error(altered_bridge: AlteredBridge) -> None:
    def lossy(answer: bytes) -> bytes:
        return answer.replace(b"MDEyMzQ1", b"", 1)  # base64 of the first characters

    with pytest.raises(ProtocolViolation):
        await altered_bridge(lossy).exec(COMMAND)


async def test_answers_of_no_helper_are_refused(directory: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"OCI runtime exec failed: no such file")
        await writer.drain()
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(answer, directory / "sandbox.sock"):
        executor = over(LocalHelper("/nowhere", directory, directory).dialer)
        with pytest.raises(ExecutorUnavailable, match="not the helper's"):
            await executor.connect()


async def stream_of(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 1_000_000):
        yield bytes(1_000_000)


async def test_command_that_does_not_read_holds_up_no_other(start_helper: StartHelper) -> None:
    async with start_helper() as helper:
        executor = helper.executor()
        unread = asyncio.create_task(executor.exec(ExecRequest(command="sleep 1", stdin=stream_of(50_000_000))))
        async with asyncio.timeout(10):
            assert (await executor.exec(ExecRequest(command="echo free"))).stdout == b"free\n"

        assert (await unread).exit_code == 0
        await executor.aclose()
