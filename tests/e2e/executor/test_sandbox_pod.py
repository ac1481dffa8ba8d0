"""The helper as the first process of real, restricted pods, against commands that mean harm."""

import asyncio
import json
import time
from typing import Any

import pytest

from mikan_agent.executor import (
    ConnectionLost,
    ExecRequest,
    ExecutorUnavailable,
    HelperExecutor,
    NoSpace,
    NotPermitted,
    new_exec_id,
)

pytestmark = pytest.mark.e2e

# Every process but the one that asks, by its command line.
OTHERS = (
    'for d in /proc/[0-9]*; do [ "${d#/proc/}" = $$ ] || tr "\\0" " " <$d/cmdline 2>/dev/null; echo; done'
    ' | grep -v "^$"'
)
# Sends the signal $0 to every process that carries a stream. The brackets keep the pattern from matching itself.
CONNECTS = (
    'for d in /proc/[0-9]*; do grep -aq "mikan-sandbo[x].connect" $d/cmdline 2>/dev/null'
    ' && kill -s "$0" "${d#/proc/}"; done; true'
)


async def processes(executor: HelperExecutor, mark: str) -> list[str]:
    """Command lines in the pod that begin with the mark."""
    result = await executor.exec(ExecRequest(command=OTHERS))
    return [line for line in result.stdout.decode().splitlines() if line.startswith(mark)]


async def until_count(executor: HelperExecutor, mark: str, count: int) -> None:
    """Wait until that many processes in the pod begin with the mark."""
    async with asyncio.timeout(10):
        while len(await processes(executor, mark)) != count:  # noqa: ASYNC110  processes of a pod have no Event
            await asyncio.sleep(0.05)


async def test_waits_for_a_pod_that_is_starting(make_sandbox: Any) -> None:
    reasons: set[str] = set()
    executor = make_sandbox("debian").executor()

    running = asyncio.create_task(executor.exec(ExecRequest(command="echo up")))
    while not running.done():
        reasons.add(executor.obstacle)
        await asyncio.sleep(0.02)
    await executor.aclose()

    assert running.result().stdout == b"up\n"
    assert any("(yet)" in reason for reason in reasons)
    assert executor.obstacle == ""


async def test_pod_that_is_not_there_is_named(make_sandbox: Any, api_server: Any, cluster: Any) -> None:
    sandbox = make_sandbox("busybox")
    cluster.kubectl("delete", "pod", sandbox.name, "--now")

    with pytest.raises(ExecutorUnavailable, match=sandbox.name):
        await sandbox.executor(start_timeout=0.3).exec(ExecRequest(command="true"))


async def test_commands_run_as_the_pod_s_user_with_true_results(executor: HelperExecutor) -> None:
    result = await executor.exec(ExecRequest(command="id -u; pwd; echo $HOME; echo oops >&2; exit 5"))

    assert (result.stdout, result.stderr, result.exit_code) == (b"10001\n/workspace\n/home/mikan\n", b"oops\n", 5)


async def test_files_go_both_ways(executor: HelperExecutor) -> None:
    data = bytes(range(256)) * 20_000

    await executor.write_file("sub/-hostile\nname", data, mode=0o600)

    assert await executor.read_file("sub/-hostile\nname") == data
    with pytest.raises(NotPermitted):
        await executor.write_file("/etc/passwd", b"x")


async def test_full_disk_is_named_and_the_old_file_stays(executor: HelperExecutor) -> None:
    await executor.write_file("/small/f", b"before")

    with pytest.raises(NoSpace):
        await executor.write_file("/small/f", bytes(6_000_000))

    assert await executor.read_file("/small/f") == b"before"
    assert (await executor.exec(ExecRequest(command="ls -A /small"))).stdout == b"f\n"


async def test_forged_frames_are_output(executor: HelperExecutor) -> None:
    forged = b"\x00\x00\x00\x02\x83\x00\x00\x00\x01{}" * 3
    await executor.write_file("forged", forged)

    result = await executor.exec(ExecRequest(command="cat forged; cat forged >&2; exit 9"))

    assert (result.stdout, result.stderr, result.exit_code) == (forged, forged, 9)


async def test_two_million_lines_arrive_whole(executor: HelperExecutor) -> None:
    lines = 0

    async def count(stream: object, chunk: bytes) -> None:
        nonlocal lines
        lines += chunk.count(b"\n")

    result = await executor.exec(ExecRequest(command="seq 2000000"), count)

    assert (lines, result.stdout_bytes, result.exit_code) == (2_000_000, 14_888_896, 0)


async def test_helper_can_be_neither_opened_nor_killed(executor: HelperExecutor, sandbox: Any) -> None:
    attack = (
        "for f in fd/1 fd/3 mem environ; do (: >/proc/1/$f) 2>/dev/null && echo wrote $f;"
        " (cat /proc/1/$f) 2>/dev/null && echo read $f; done; kill -9 1; kill -STOP 1; sleep 0.2; echo survived"
    )

    assert (await executor.exec(ExecRequest(command=attack))).stdout == b"survived\n"
    assert (await executor.exec(ExecRequest(command="echo still"))).stdout == b"still\n"
    assert sandbox.cluster.pod(sandbox.name)["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_killed_stream_is_an_error_and_is_opened_again(executor: HelperExecutor) -> None:
    with pytest.raises(ConnectionLost):
        await executor.exec(ExecRequest(argv=["sh", "-c", f"{CONNECTS}; sleep 600", "KILL"]))

    assert (await executor.exec(ExecRequest(command="echo back"))).stdout == b"back\n"
    await until_count(executor, "sleep 600", 0)


async def test_frozen_stream_is_given_up(sandbox: Any) -> None:
    executor = sandbox.executor(silence=1.0)
    with pytest.raises(ConnectionLost, match="stopped answering"):
        await executor.exec(ExecRequest(argv=["sh", "-c", f"{CONNECTS}; sleep 600", "STOP"]))

    assert (await executor.exec(ExecRequest(argv=["sh", "-c", CONNECTS, "CONT"]))).exit_code == 0
    await until_count(executor, "sleep 600", 0)
    await executor.aclose()


async def test_sandbox_that_a_command_shuts_down_comes_back(make_sandbox: Any) -> None:
    executor = make_sandbox("busybox").executor()
    with pytest.raises(ConnectionLost):
        await executor.exec(ExecRequest(command="echo kept >kept; kill 1; sleep 600"))

    assert (await executor.exec(ExecRequest(command="cat kept"))).stdout == b"kept\n"
    await executor.aclose()


async def test_stop_ends_everything_within_two_seconds(executor: HelperExecutor) -> None:
    exec_id = new_exec_id()
    command = "setsid sleep 601 & (trap '' TERM; sleep 601) & sleep 601"
    run = asyncio.create_task(executor.exec(ExecRequest(command=command, exec_id=exec_id)))
    await until_count(executor, "sleep 601", 3)

    begun = time.monotonic()
    assert await executor.kill(exec_id)
    result = await run

    assert time.monotonic() - begun < 2
    assert (result.killed, result.survivors) == (True, 0)
    assert await processes(executor, "sleep 601") == []


async def test_lost_client_ends_what_it_ran(sandbox: Any, executor: HelperExecutor) -> None:
    other = sandbox.executor()
    run = asyncio.create_task(other.exec(ExecRequest(command="setsid sleep 602 & sleep 602")))
    await until_count(executor, "sleep 602", 2)

    other._connection._stream._socket.transport.abort()  # as if this process had died

    with pytest.raises(ConnectionLost):
        await run
    await until_count(executor, "sleep 602", 0)
    await other.aclose()


async def test_command_that_eats_all_memory_dies_alone(make_sandbox: Any, cluster: Any) -> None:
    sandbox = make_sandbox("debian", memory="64Mi")
    executor = sandbox.executor()

    eater = "import sys; sys.stdout.write('eating'); sys.stdout.flush(); x = bytearray(500_000_000)"
    result = await executor.exec(ExecRequest(argv=["python3", "-c", eater]))
    after = await executor.exec(ExecRequest(command="echo alive"))
    await executor.aclose()

    assert (result.signal, result.exit_code, result.killed, result.stdout) == (9, 137, False, b"eating")
    assert after.stdout == b"alive\n"
    assert cluster.pod(sandbox.name)["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_vault_is_in_variables_and_files_and_a_rotation_arrives(make_sandbox: Any, cluster: Any) -> None:
    def secret(token: str) -> dict[str, Any]:
        data = {"TOKEN": token, "MULTI": "one\ntwo\n", "id_rsa": f"key {token}\n"}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vault"}, "stringData": data}

    cluster.apply(secret("old"))
    files = json.dumps([{"key": "id_rsa", "path": "~/.ssh/id_rsa", "mode": "0440"}])
    sandbox = make_sandbox("busybox", secret="vault", env=[{"name": "MIKAN_VAULT_FILES", "value": files}])
    executor = sandbox.executor()
    show = ExecRequest(command='printf "%s|%s|" "$TOKEN" "$MULTI"; cat ~/.ssh/id_rsa')
    first = await executor.exec(show)

    cluster.apply(secret("new"))
    begun = time.monotonic()
    cluster.kubectl("annotate", "pod", sandbox.name, "mikan.dev/vault-version=2")
    async with asyncio.timeout(20):
        while (second := await executor.exec(show)).stdout == first.stdout:  # noqa: ASYNC110  the kubelet has no Event
            await asyncio.sleep(0.1)
    print(f"\nrotation seen after {time.monotonic() - begun:.2f} s")
    await executor.aclose()

    assert first.stdout == b"old|one\ntwo\n|key old\n"
    assert second.stdout == b"new|one\ntwo\n|key new\n"


async def test_pod_ends_at_once(make_sandbox: Any, cluster: Any) -> None:
    sandbox = make_sandbox("busybox")
    executor = sandbox.executor()
    await executor.exec(ExecRequest(command="trap '' TERM; sleep 603 & true"))
    await executor.aclose()

    begun = time.monotonic()
    await asyncio.to_thread(cluster.kubectl, "delete", "pod", sandbox.name)
    took = time.monotonic() - begun

    print(f"\npod gone after {took:.2f} s")
    assert took < 4  # the grace period, after which the kubelet would kill it, is 5 s
