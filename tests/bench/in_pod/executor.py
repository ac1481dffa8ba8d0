"""Runs in an agent's pod: commands and bytes through the executor to its own sandbox pod.

Argument: a job as JSON (``count`` commands, ``output_mb``, ``file_mb``). Prints one JSON line: milliseconds of ``true``
without and with a shell, and of one ``pods/exec`` of ``true``; MB/s of output and of files in and out.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import PurePosixPath
from typing import Any

from mikan_agent.executor import ExecRequest
from mikan_agent.executor.paths import PathContext
from mikan_agent.executor.pod_exec import ApiServer, PodDialer, PodTarget, pod_executor
from mikan_agent.executor.ports import ExecutorConfig
from mikan_api import names
from mikan_api.identity import OfficeAddress, office_key
from mikan_api.sandbox_mode import parse_sandbox_mode

NAMESPACE, POD = os.environ["MIKAN_NAMESPACE"], os.environ["MIKAN_SANDBOX_POD"]
EXECS = 7


async def timed(action: Any, count: int) -> list[float]:
    """Milliseconds of each run."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        await action()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


async def rate(action: Any, megabytes: int) -> float:
    """MB/s of one run."""
    return megabytes * 1000 / (await timed(action, 1))[0]


async def one_exec() -> None:
    target = PodTarget(namespace=NAMESPACE, pod=POD, command=("true",))
    stream = await PodDialer(ApiServer.in_cluster(), target).dial()
    while await stream.read():
        continue
    await stream.aclose()


async def main(job: dict[str, Any]) -> None:
    office = OfficeAddress.parse(os.environ["MIKAN_OFFICE_PLATFORM"], os.environ["MIKAN_OFFICE_CONVERSATION"])
    root = PurePosixPath(names.WORKSPACE) / office_key(office)
    mode = parse_sandbox_mode(os.environ["MIKAN_SANDBOX_MODE"])
    executor = pod_executor(
        ApiServer.in_cluster(),
        PodTarget(namespace=NAMESPACE, pod=POD),
        ExecutorConfig(mode=mode, vault_env=True, vault_files=mode.mounts_vault_files),
        PathContext(runtime_root=root, host_root=root),
    )
    await executor.connect()
    size, data, file = job["output_mb"] * 1_000_000, bytes(job["file_mb"] * 1_000_000), root / "scratch" / "bench.bin"
    received = 0

    async def count(stream: object, chunk: bytes) -> None:
        nonlocal received
        received += len(chunk)

    async def output() -> None:
        await executor.exec(ExecRequest(argv=["head", "-c", str(size), "/dev/zero"]), count)
        assert received == size, f"{received} of {size} bytes"

    async def read() -> None:
        assert await executor.read_file(file) == data

    await executor.exec(ExecRequest(argv=["true"]))
    figures = {
        "true": await timed(lambda: executor.exec(ExecRequest(argv=["true"])), job["count"]),
        "true_shell": await timed(lambda: executor.exec(ExecRequest(command="true")), job["count"]),
        "stat": await timed(lambda: executor.stat("/"), job["count"]),
        "pods_exec": await timed(one_exec, EXECS),
        "output": await rate(output, job["output_mb"]),
        "write": await rate(lambda: executor.write_file(file, data), job["file_mb"]),
        "read": await rate(read, job["file_mb"]),
    }
    await executor.exec(ExecRequest(argv=["rm", "-f", str(file)]))
    await executor.aclose()
    print(json.dumps(figures))


asyncio.run(main(json.loads(sys.argv[1])))
