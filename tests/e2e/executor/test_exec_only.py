"""The exec-only transport against a busybox that we didn't write, over ``kubectl exec``."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mikan_agent.executor import BridgeReply, ExecOnlyExecutor, ExecRequest, FileMissing, FileType

pytestmark = pytest.mark.e2e


class KubectlBridge:
    """A CommandBridge over ``kubectl exec``."""

    def __init__(self, sandbox: Any) -> None:
        self._sandbox = sandbox

    async def run(self, argv: Sequence[str]) -> BridgeReply:
        """Run one program to its end."""
        arguments = ("exec", self._sandbox.name, "-c", "sandbox", "--", *argv)
        printed = await asyncio.to_thread(lambda: self._sandbox.cluster.kubectl(*arguments))
        return BridgeReply(printed.encode(), 0)


async def test_every_operation_works_with_busybox_alone(make_sandbox: Any, config: Any, context: Any) -> None:
    sandbox = make_sandbox("busybox")
    direct = sandbox.executor()
    await direct.connect()
    await direct.aclose()
    executor = ExecOnlyExecutor(KubectlBridge(sandbox), config, context)
    data = bytes(range(256)) * 500

    await executor.write_file("sub/-hostile\nname ", data, mode=0o640)
    assert await executor.read_file("sub/-hostile\nname ", 100, 1000) == data[100:1100]
    assert await executor.read_file("sub/-hostile\nname ") == data
    stat = await executor.stat("sub/-hostile\nname ")
    assert (stat.type, stat.size, stat.mode) == (FileType.FILE, len(data), 0o640)
    with pytest.raises(FileMissing):
        await executor.read_file("missing")

    result = await executor.exec(ExecRequest(command='cat; echo "$N" >&2; exit 3', stdin=b"in\0put", env={"N": "1\n2"}))
    assert (result.stdout, result.stderr, result.exit_code) == (b"in\0put", b"1\n2\n", 3)

    command = "setsid sleep 605 & (trap '' TERM; sleep 605) & sleep 605"
    killed = await executor.exec(ExecRequest(command=command, timeout=2, grace=0.2))
    assert (killed.timed_out, killed.survivors) == (True, 0)
    left = await executor.exec(ExecRequest(command="grep -l '^sleep.605' /proc/[0-9]*/cmdline 2>/dev/null"))
    assert left.stdout == b""
