"""A helper as a process of this machine: for tests, and for the mode ``host``.

It is no boundary: its commands may do whatever this process may.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import TracebackType

from mikan_agent.executor.client import HelperExecutor
from mikan_agent.executor.paths import PathContext
from mikan_agent.executor.ports import ExecutorConfig
from mikan_agent.executor.streams import UnixDialer
from mikan_api.sandbox_mode import SandboxKind, SandboxMode

LOCAL_START_TIMEOUT = 10.0
_STOP_TIMEOUT = 5.0

HOST_CONFIG = ExecutorConfig(SandboxMode(SandboxKind.HOST, ""), vault_env=False, vault_files=False)


class LocalHelper:
    """Runs ``mikan-sandbox serve`` while the ``async with`` block is open.

    ``directory`` holds its socket and must be short enough for one (107 bytes with the name).
    """

    def __init__(
        self,
        binary: str | Path,
        directory: Path,
        workspace: Path,
        *,
        home: Path | None = None,
        vault: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._binary = str(binary)
        self._socket = directory / "sandbox.sock"
        self._workspace = workspace
        self._home = home or workspace
        self._vault = vault or directory / "vault"
        self._env = dict(os.environ if env is None else env)
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> "LocalHelper":
        arguments = ("--socket", self._socket, "--workspace", self._workspace, "--home", self._home)
        self._process = await asyncio.create_subprocess_exec(
            self._binary, "serve", *map(str, arguments), "--vault", str(self._vault), env=self._env
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_TIMEOUT)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    @property
    def pid(self) -> int:
        """Process id of the helper."""
        if self._process is None:
            raise RuntimeError("the helper is not running")
        return self._process.pid

    @property
    def dialer(self) -> UnixDialer:
        """Opens streams to it."""
        return UnixDialer(str(self._socket))

    def executor(self, config: ExecutorConfig = HOST_CONFIG) -> HelperExecutor:
        """An Executor over a stream of its own."""
        root = PurePosixPath(self._workspace)
        return HelperExecutor(self.dialer, config, PathContext(root, root), start_timeout=LOCAL_START_TIMEOUT)
