"""Chatting with an extension: lines in, what people would see out; ``/new`` loads the code again."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath

from mikan_agent.app import Agent
from mikan_agent.config import Config
from mikan_agent.executor import LocalHelper
from mikan_agent.executor.client import HelperExecutor
from mikan_agent.executor.exceptions import ExecutorUnavailable
from mikan_agent.executor.local import HOST_CONFIG
from mikan_agent.executor.paths import PathContext
from mikan_agent.executor.streams import DuplexStream
from mikan_agent.extensions.dev.gateway import TerminalGateway
from mikan_agent.extensions.extension import Diagnostic
from mikan_agent.extensions.office import OfficeExtensions, Places
from mikan_agent.extensions.packages import Located, at
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.layout import Office, Workspace
from mikan_api.packages import slugify
from mikan_api.sandbox_mode import SandboxKind, SandboxMode
from mikan_api.settings import Budgets, Llm

NEW = frozenset({"/new", "/pi-new"})
STOP = frozenset({"stop", "/stop"})


@dataclass(frozen=True, slots=True)
class DevChat:
    """What a chat is about, and where it keeps things."""

    package: Path
    directory: Path
    """The workspace, records and data of the one office; kept between chats."""
    models_url: str
    models_token: Path
    model: str
    helper: Path | None
    """The sandbox helper; without it commands can't run, and all else does."""

    @property
    def slug(self) -> str:
        """The package's."""
        return slugify(self.package.resolve().name)

    @property
    def address(self) -> OfficeAddress:
        """Each package has a conversation of its own."""
        return dev_address(self.package)

    @property
    def workspace(self) -> Workspace:
        """The layout of an office, below the directory."""
        base = PurePosixPath(self.directory.resolve())
        return Workspace(root=base / "workspace", records=base / "records", shared=base / "shared")

    def extensions(self, office: Office, workspace: Workspace, tools: Sequence[str]) -> OfficeExtensions:
        """The package as it is on disk whenever a session begins."""
        places = Places(shared_data=self.directory / "data", secrets=self.directory / "secrets")
        return OfficeExtensions(self._find, office, workspace, tools, places=places)

    def _find(self) -> Located:
        package, faults = at(self.package, self.slug)
        return Located((package,), tuple(Diagnostic(self.slug, fault) for fault in faults))

    async def run(self, show: Callable[[str], None]) -> None:
        """Chat until the input ends."""
        async with AsyncExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mikan-")))
            gateway = await stack.enter_async_context(
                TerminalGateway(self.address, Llm(model=self.model), Budgets(model_calls=100), show)
            )
            executor = await stack.enter_async_context(self._executor(scratch))
            await stack.enter_async_context(self._agent(scratch, gateway, executor))
            await _converse(gateway, show)

    @asynccontextmanager
    async def _agent(
        self, scratch: Path, gateway: TerminalGateway, executor: Callable[[], HelperExecutor]
    ) -> AsyncIterator[None]:
        tokens = scratch / "tokens"
        tokens.mkdir(mode=0o700)
        (tokens / "gateway").write_text(gateway.token)
        (tokens / "models").write_bytes(self.models_token.read_bytes())
        config = Config(
            office=self.address,
            gateway_url=gateway.url,
            models_url=self.models_url,
            tokens=tokens,
            pod_name="dev",
            pod_uid="dev",
            namespace="dev",
            sandbox_mode=SandboxMode(SandboxKind.HOST, ""),
            sandbox_pod="",
            drain=timedelta(seconds=5),
        )
        agent = Agent(config, workspace=self.workspace, make_executor=executor, make_extensions=self.extensions)
        serving = asyncio.create_task(agent.run())
        try:
            yield
        finally:
            agent.terminate()
            await serving

    @asynccontextmanager
    async def _executor(self, scratch: Path) -> AsyncIterator[Callable[[], HelperExecutor]]:
        root = Path(self.workspace.root)
        await asyncio.to_thread(root.mkdir, parents=True, exist_ok=True)
        if self.helper is None:
            context = PathContext(PurePosixPath(root), PurePosixPath(root))
            yield lambda: HelperExecutor(_NoHelper(), HOST_CONFIG, context, start_timeout=0)
            return
        async with LocalHelper(self.helper, scratch, root) as helper:
            yield helper.executor


class _NoHelper:
    """Commands can't run: the program that runs them is not there."""

    async def dial(self) -> DuplexStream:
        raise ExecutorUnavailable("there is no mikan-sandbox here; name it with --helper to have commands run")


def dev_address(package: Path) -> OfficeAddress:
    """The conversation of a package that is being written."""
    return OfficeAddress(Platform.CONSOLE, f"ext-dev-{slugify(package.resolve().name)}")


async def _converse(gateway: TerminalGateway, show: Callable[[str], None]) -> None:
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    assert main is not None  # noqa: S101  called from a task
    tasks: set[asyncio.Task[None]] = set()

    def interrupt() -> None:
        """Ctrl-C ends an answer, and where there is none the chat."""
        if gateway.running:
            tasks.add(asyncio.create_task(gateway.stop()))
        else:
            main.cancel()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        async for line in _lines():
            text = line.strip()
            if text.lower() in NEW:
                await gateway.new()
                show("(a new session; your code is loaded again with the next message)")
            elif text and text.lower() not in STOP:
                await gateway.say(text)
    except asyncio.CancelledError:
        return
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _lines() -> AsyncIterator[str]:
    """Lines of standard input, read without a thread that would keep the process from ending."""
    pending = b""
    while True:
        if sys.stdin.isatty():
            sys.stdout.write("> ")
            sys.stdout.flush()
        while b"\n" not in pending:
            data = await _read()
            if not data:
                return
            pending += data
        line, _, pending = pending.partition(b"\n")
        yield line.decode(errors="replace")


async def _read() -> bytes:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(0, readable.set)
    except PermissionError:
        return await asyncio.to_thread(os.read, 0, 65_536)  # a regular file can't be waited for
    try:
        await readable.wait()
    finally:
        loop.remove_reader(0)
    return os.read(0, 65_536)
