"""Every implementation of Executor, each over real processes of this machine."""

import asyncio
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path, PurePosixPath

import pytest

from mikan_agent.executor import BridgeReply, ExecOnlyExecutor, Executor, LocalHelper, PathContext
from mikan_agent.executor.local import HOST_CONFIG

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def go() -> str:
    """The Go tool."""
    return shutil.which("go") or subprocess.check_output([REPOSITORY / "tests/cluster/go.sh"], text=True).strip()


@pytest.fixture(scope="session")
def helper_binary(go: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sandbox helper, built from this checkout."""
    if (built := os.environ.get("MIKAN_SANDBOX_HELPER")) is not None:
        return Path(built)
    binary = tmp_path_factory.mktemp("helper") / "mikan-sandbox"
    subprocess.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-o", binary, "."],
        cwd=REPOSITORY / "agent/sandbox",
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    return binary


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose name is short enough for a socket in it."""
    with tempfile.TemporaryDirectory(prefix="mx") as path:
        yield Path(path)


@pytest.fixture
def workspace(directory: Path) -> Path:
    """Where commands start."""
    path = directory / "work"
    path.mkdir()
    return path


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Waits until a condition of other processes holds."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110  other processes have no Event
                await asyncio.sleep(0.01)

    return wait


class SubprocessBridge:
    """A CommandBridge that runs programs here."""

    def __init__(self, alter: Callable[[bytes], bytes] = bytes) -> None:
        self._alter = alter

    async def run(self, argv: Sequence[str]) -> BridgeReply:
        """Run one program to its end, and alter what it printed."""
        # In a thread: an event loop of its own may give a program a socket for its output, which no bridge does.
        run = functools.partial(subprocess.run, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
        done = await asyncio.to_thread(run, argv)
        return BridgeReply(self._alter(done.stdout), done.returncode)


@pytest.fixture
def altered_bridge(workspace: Path) -> Callable[[Callable[[bytes], bytes]], ExecOnlyExecutor]:
    """An exec-only executor whose bridge changes every answer."""

    def build(alter: Callable[[bytes], bytes]) -> ExecOnlyExecutor:
        root = PurePosixPath(workspace)
        return ExecOnlyExecutor(SubprocessBridge(alter), HOST_CONFIG, PathContext(root, root))

    return build


@pytest.fixture
def start_helper(
    helper_binary: Path, directory: Path, workspace: Path
) -> Callable[..., AbstractAsyncContextManager[LocalHelper]]:
    """Starts a helper with variables of its own; its home and vault are beside the workspace."""

    @asynccontextmanager
    async def start(**env: str) -> AsyncIterator[LocalHelper]:
        home, vault = directory / "home", directory / "vault"
        home.mkdir(exist_ok=True)
        variables = {"PATH": os.environ["PATH"], **env}
        async with LocalHelper(helper_binary, directory, workspace, home=home, vault=vault, env=variables) as helper:
            yield helper

    return start


@pytest.fixture(params=["helper", "exec_only"])
async def executor(
    request: pytest.FixtureRequest,
    workspace: Path,
    start_helper: Callable[..., AbstractAsyncContextManager[LocalHelper]],
) -> AsyncIterator[Executor]:
    """Each Executor in turn."""
    if request.param == "exec_only":
        root = PurePosixPath(workspace)
        bridged = ExecOnlyExecutor(SubprocessBridge(), HOST_CONFIG, PathContext(root, root))
        yield bridged
        await bridged.aclose()
        return
    async with start_helper() as helper:
        executor = helper.executor()
        yield executor
        await executor.aclose()
