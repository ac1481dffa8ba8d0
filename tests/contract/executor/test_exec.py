"""What every Executor does with a command."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path, PurePosixPath

import pytest

from mikan_agent.executor import (
    ExecRequest,
    Executor,
    FileMissing,
    InvalidRequest,
    OutputStream,
    RequestRefused,
    TooLarge,
    new_exec_id,
)

FORGED_FRAME = b"\x00\x00\x00\x02\x83\x00\x00\x00\x01{}ok\n0 0 0\nend 5\n"


def processes_with(mark: str) -> list[int]:
    """Living processes whose command line holds the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in line:
            found.append(int(entry.name))
    return found


@pytest.fixture
def nap() -> str:
    """A number of seconds that no other test sleeps for, to find the sleepers by."""
    return f"{600 + time.monotonic_ns() % 10_000_000 / 10_000_000:.7f}"


Until = Callable[[Callable[[], bool]], Awaitable[None]]


async def test_returns_both_streams_and_the_exit_code(executor: Executor) -> None:
    result = await executor.exec(ExecRequest(command="printf out; printf err >&2; exit 3"))

    assert (result.stdout, result.stderr, result.exit_code, result.signal) == (b"out", b"err", 3, None)
    assert (result.stdout_bytes, result.stderr_bytes) == (3, 3)
    assert not result.timed_out
    assert not result.killed


async def test_exit_code_of_a_signal_is_128_and_its_number(executor: Executor) -> None:
    assert (await executor.exec(ExecRequest(command="kill -9 $$"))).exit_code == 137


async def test_argv_reaches_the_program_unparsed(executor: Executor) -> None:
    hostile = ["a b", "'", '"', "$(id)", "`id`", "\n", "", "-n", "ü", "\\", "\udcff"]

    result = await executor.exec(ExecRequest(argv=["printf", "%s|", *hostile]))

    assert result.stdout == "|".join([*hostile, ""]).encode("utf-8", "surrogateescape")


async def test_starts_in_the_workspace_or_where_it_is_told(executor: Executor, workspace: Path) -> None:
    (workspace / "sub dir\n").mkdir()

    default = await executor.exec(ExecRequest(argv=["pwd", "-P"]))
    relative = await executor.exec(ExecRequest(argv=["pwd", "-P"], cwd="sub dir\n"))

    assert default.stdout == f"{workspace}\n".encode()
    assert relative.stdout == f"{workspace}/sub dir\n\n".encode()


async def test_missing_working_directory_is_refused(executor: Executor) -> None:
    with pytest.raises(FileMissing, match="working directory"):
        await executor.exec(ExecRequest(command="true", cwd="/no/such/place"))


async def test_missing_program_is_refused(executor: Executor) -> None:
    with pytest.raises(FileMissing):
        await executor.exec(ExecRequest(argv=["no-such-program-here"]))


async def test_variables_arrive_as_they_are(executor: Executor) -> None:
    value = "line one\nline 'two' \"$HOME\"\n"

    result = await executor.exec(ExecRequest(command='printf %s "$SAID"', env={"SAID": value}))

    assert result.stdout == value.encode()


async def test_stdin_is_passed_whole(executor: Executor) -> None:
    data = os.urandom(3_000_000)

    assert (await executor.exec(ExecRequest(argv=["cat"], stdin=data))).stdout == data


async def test_stdin_can_be_a_stream(executor: Executor) -> None:
    async def lines() -> AsyncIterator[bytes]:
        yield b"one\n"
        yield b"two\n"

    assert (await executor.exec(ExecRequest(argv=["cat"], stdin=lines()))).stdout == b"one\ntwo\n"


async def test_error_of_the_stdin_stream_is_raised_and_the_command_ended(executor: Executor) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"one\n"
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        await executor.exec(ExecRequest(argv=["cat"], stdin=broken()))


async def test_without_stdin_a_reader_sees_the_end(executor: Executor) -> None:
    assert (await executor.exec(ExecRequest(argv=["cat"]))).stdout == b""


async def test_a_command_that_ignores_its_stdin_ends(executor: Executor) -> None:
    assert (await executor.exec(ExecRequest(argv=["true"], stdin=bytes(3_000_000)))).exit_code == 0


async def test_binary_output_arrives_unchanged(executor: Executor, workspace: Path) -> None:
    data = bytes(range(256)) * 4096
    (workspace / "all").write_bytes(data)

    assert (await executor.exec(ExecRequest(argv=["cat", "all"]))).stdout == data


async def test_forged_frames_are_output(executor: Executor, workspace: Path) -> None:
    (workspace / "forged").write_bytes(FORGED_FRAME)

    result = await executor.exec(ExecRequest(command="cat forged; cat forged >&2; exit 7"))

    assert (result.stdout, result.stderr, result.exit_code) == (FORGED_FRAME, FORGED_FRAME, 7)


async def test_two_million_lines_arrive_whole(executor: Executor) -> None:
    counted = {OutputStream.STDOUT: 0, OutputStream.STDERR: 0}
    size = 0

    async def count(stream: OutputStream, chunk: bytes) -> None:
        nonlocal size
        counted[stream] += chunk.count(b"\n")
        size += len(chunk)

    result = await executor.exec(ExecRequest(argv=["seq", "2000000"]), count)

    assert counted == {OutputStream.STDOUT: 2_000_000, OutputStream.STDERR: 0}
    assert result.stdout_bytes == size == 14_888_896


async def test_more_output_than_may_be_captured_is_an_error(executor: Executor) -> None:
    with pytest.raises(TooLarge):
        await executor.exec(ExecRequest(command="head -c 100000 /dev/zero", capture_limit=99_999))


async def test_error_of_the_output_callback_is_raised(executor: Executor) -> None:
    async def refuse(stream: OutputStream, chunk: bytes) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        await executor.exec(ExecRequest(command="echo one"), refuse)


async def test_time_limit_ends_the_whole_run(executor: Executor, nap: str) -> None:
    command = f"sleep {nap} & setsid sleep {nap} & (trap '' TERM; sleep {nap}) & sleep {nap}"

    result = await executor.exec(ExecRequest(command=command, timeout=0.3, grace=0.3))

    assert (result.timed_out, result.killed, result.survivors) == (True, False, 0)
    assert result.exit_code > 128
    assert processes_with(nap) == []


async def test_kill_ends_the_whole_run(executor: Executor, nap: str, until: Until) -> None:
    exec_id = new_exec_id()
    run = asyncio.create_task(executor.exec(ExecRequest(command=f"setsid sleep {nap} & sleep {nap}", exec_id=exec_id)))
    await until(lambda: len(processes_with(nap)) >= 3)

    assert await executor.kill(exec_id)

    result = await run
    assert (result.killed, result.timed_out, result.survivors) == (True, False, 0)
    assert processes_with(nap) == []


async def test_kill_of_what_does_not_run_says_so(executor: Executor) -> None:
    assert not await executor.kill(new_exec_id())


async def test_cancelling_ends_the_whole_run_first(executor: Executor, nap: str, until: Until) -> None:
    run = asyncio.create_task(executor.exec(ExecRequest(command=f"setsid sleep {nap} & sleep {nap}")))
    await until(lambda: len(processes_with(nap)) >= 3)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert processes_with(nap) == []


async def test_background_child_that_holds_stdout_does_not_hold_the_command(executor: Executor, nap: str) -> None:
    async with asyncio.timeout(10):
        result = await executor.exec(ExecRequest(command=f"sleep {nap} & echo $!"))

    child = int(result.stdout)
    assert result.exit_code == 0
    assert processes_with(nap) == [child]  # it was meant to stay
    os.kill(child, 9)


async def test_twenty_commands_run_at_once(executor: Executor) -> None:
    async with asyncio.timeout(30):
        results = await asyncio.gather(
            *(executor.exec(ExecRequest(command=f"sleep 0.3; seq {n} 9000")) for n in range(20))
        )

    assert [result.stdout.split(b"\n", 1)[0] for result in results] == [str(n).encode() for n in range(20)]
    assert all(result.stdout.endswith(b"\n9000\n") for result in results)


@pytest.mark.parametrize("command", ["a\0b", "\ud800"])
async def test_what_no_program_can_be_given_is_refused(executor: Executor, command: str) -> None:
    with pytest.raises(InvalidRequest):
        await executor.exec(ExecRequest(argv=["echo", command]))


async def test_a_command_longer_than_linux_takes_is_refused(executor: Executor) -> None:
    with pytest.raises(TooLarge):
        await executor.exec(ExecRequest(command=": " + "x" * 200_000))


async def test_an_executor_goes_on_after_a_refusal(executor: Executor) -> None:
    with pytest.raises(RequestRefused):
        await executor.exec(ExecRequest(argv=["no-such-program-here"]))

    assert (await executor.exec(ExecRequest(command="echo on"))).stdout == b"on\n"


async def test_paths_are_the_same_on_both_sides(executor: Executor, workspace: Path) -> None:
    assert executor.workspace_path.as_posix() == str(workspace)
    root = PurePosixPath(workspace)
    assert executor.path_context.to_runtime(root / "a") == root / "a"
    assert str(executor.config.mode) == "host"
