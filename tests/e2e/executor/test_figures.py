"""What commands and bytes cost over the stream, each beside ``kubectl exec`` in the same pod; printed, not asserted."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mikan_agent.executor import ExecRequest

pytestmark = [pytest.mark.e2e, pytest.mark.bench]

MEGABYTES = 100


async def timed(action: Callable[[], Awaitable[object]], count: int) -> list[float]:
    """Milliseconds of each of ``count`` runs, sorted."""
    taken = []
    for _ in range(count):
        begun = time.perf_counter()
        await action()
        taken.append((time.perf_counter() - begun) * 1000)
    return sorted(taken)


def show(name: str, value: float, unit: str) -> None:
    print(f"{name:<34} {value:8.2f} {unit}")


async def test_figures(make_sandbox: Any, cluster: Any) -> None:
    sandbox = make_sandbox("debian", memory="1Gi")
    executor = sandbox.executor()
    await executor.connect()
    show_times(await timed(lambda: executor.stat("/"), 300), "round trip (stat)")
    show_times(await timed(lambda: executor.exec(ExecRequest(argv=["true"])), 300), "true, argv")
    show_times(await timed(lambda: executor.exec(ExecRequest(command="true")), 300), "true, shell")
    take = ["exec", "-i", sandbox.name, "-c", "sandbox", "--", "sh", "-c", "cat >/workspace/big2"]
    kubectl = ["exec", sandbox.name, "-c", "sandbox", "--"]
    show_times(
        await timed(lambda: asyncio.to_thread(lambda: cluster.kubectl(*kubectl, "true")), 5), "true, kubectl exec"
    )

    size = MEGABYTES * 1_000_000
    print_zeros = ["head", "-c", str(size), "/dev/zero"]
    begun = time.perf_counter()
    assert len(await asyncio.to_thread(lambda: cluster.kubectl(*kubectl, *print_zeros))) == size
    show("output, kubectl exec", MEGABYTES / (time.perf_counter() - begun), "MB/s")
    received = 0

    async def count(stream: object, chunk: bytes) -> None:
        nonlocal received
        received += len(chunk)

    begun = time.perf_counter()
    await executor.exec(ExecRequest(argv=print_zeros), count)
    show("output", MEGABYTES / (time.perf_counter() - begun), "MB/s")
    assert received == size

    data = bytes(20_000_000)
    begun = time.perf_counter()
    await executor.write_file("/workspace/big", data)
    show("write a file", 20 / (time.perf_counter() - begun), "MB/s")
    begun = time.perf_counter()
    assert await executor.read_file("/workspace/big") == data
    show("read a file", 20 / (time.perf_counter() - begun), "MB/s")
    begun = time.perf_counter()
    await asyncio.to_thread(lambda: cluster.kubectl(*take, stdin=data))
    show("write a file, kubectl exec", 20 / (time.perf_counter() - begun), "MB/s")
    await executor.aclose()


def show_times(taken: list[float], name: str) -> None:
    show(f"{name}, p50", statistics.median(taken), "ms")
    show(f"{name}, p99", taken[min(len(taken) - 1, len(taken) * 99 // 100)], "ms")
