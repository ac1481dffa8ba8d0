"""The execution boundary: all that a tool may know of where its commands run (architecture section 7).

Tools use the file methods, never a quoting protocol of their own. Every implementation passes
``tests/contract/executor``.
"""

import secrets
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import NewType, Protocol

from mikan_agent.executor.paths import PathContext
from mikan_api.sandbox_mode import SandboxMode

ExecId = NewType("ExecId", str)

DEFAULT_GRACE = 1.0
"""Seconds between TERM and KILL."""
CAPTURE_LIMIT = 8 * 1024 * 1024
"""Bytes of each output stream that a result holds at most; more needs ``on_output``."""
READ_LIMIT = 64 * 1024 * 1024
"""Bytes that one ``read_file`` returns at most; more needs ``offset`` and ``limit``."""

StrPath = str | PurePosixPath


class OutputStream(StrEnum):
    """Which of a command's two output streams a chunk came from."""

    STDOUT = "stdout"
    STDERR = "stderr"


OnOutput = Callable[[OutputStream, bytes], Awaitable[None]]
"""Takes output as it comes, in order per stream. While it waits, the command is held up, and no other."""


def new_exec_id() -> ExecId:
    """A name for one command, for ``Executor.kill``."""
    return ExecId(secrets.token_hex(8))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    """One command: either ``command``, for the sandbox's shell, or ``argv``, for no shell at all.

    Attributes:
        cwd: working directory as commands see it; the workspace if empty.
        env: variables beside the sandbox's own and the vault's.
        stdin: its whole input; None reads as empty.
        timeout: seconds until the whole run is killed; None = no limit.
        grace: seconds between TERM and KILL.
        capture_limit: bytes a stream that the result may hold when there is no ``on_output``.
    """

    command: str | None = None
    argv: Sequence[str] = ()
    cwd: StrPath = ""
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes | AsyncIterable[bytes] | None = None
    timeout: float | None = None
    grace: float = DEFAULT_GRACE
    capture_limit: int = CAPTURE_LIMIT
    exec_id: ExecId = field(default_factory=new_exec_id)

    def __post_init__(self) -> None:
        if (self.command is None) == (not self.argv):
            raise ValueError("an ExecRequest has either a command or an argv")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a command ended, after all of its output has arrived.

    Attributes:
        exit_code: as a shell reports it: 128 + signal where a signal ended it.
        signal: that signal, or None.
        timed_out: its time limit passed; nothing of the run is left.
        killed: somebody ended it; nothing of the run is left.
        survivors: processes that even KILL did not end in time (uninterruptible sleep).
        stdout, stderr: empty where ``on_output`` took them; the counts hold all the same.
    """

    exit_code: int
    signal: int | None = None
    timed_out: bool = False
    killed: bool = False
    survivors: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_bytes: int = 0
    stderr_bytes: int = 0


class FileType(StrEnum):
    """What stands at a path."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class FileStat:
    """A path's type, size in bytes, permission bits, and modification time in nanoseconds since 1970."""

    type: FileType
    size: int
    mode: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class ExecutorConfig:
    """Which sandbox this is, and what a vault can give to its commands."""

    mode: SandboxMode
    vault_env: bool
    vault_files: bool


class Executor(Protocol):
    """Runs commands and moves files in one sandbox. Safe for concurrent use.

    All methods raise ExecutorUnavailable (nothing happened), ConnectionLost (unknown what happened) or a
    RequestRefused. Paths are runtime paths; relative ones start at the workspace.
    """

    @property
    def config(self) -> ExecutorConfig:
        """The sandbox in use."""
        ...

    @property
    def path_context(self) -> PathContext:
        """How this process's paths and the commands' paths correspond."""
        ...

    @property
    def workspace_path(self) -> PurePosixPath:
        """The workspace root as commands see it."""
        ...

    async def exec(self, request: ExecRequest, on_output: OnOutput | None = None) -> ExecResult:
        """Run a command to its end. Cancelling kills the whole run first, then raises CancelledError.

        Raises:
            TooLarge: more output than ``capture_limit`` and no ``on_output``; the run has been killed.
        """
        ...

    async def kill(self, exec_id: ExecId, grace: float = DEFAULT_GRACE) -> bool:
        """End a run that ``exec`` is waiting for, whose result then says ``killed``. False: there is none."""
        ...

    async def read_file(self, path: StrPath, offset: int = 0, limit: int | None = None) -> bytes:
        """The content of a regular file, or a part of it.

        Raises:
            TooLarge: more than READ_LIMIT bytes were asked for and are there.
        """
        ...

    async def write_file(
        self, path: StrPath, data: bytes | AsyncIterable[bytes], mode: int | None = None, parents: bool = True
    ) -> None:
        """Replace a file as a whole: until it returns, and if it fails, the target is what it was.

        ``mode`` None keeps the old file's mode, 0644 for a new one. ``parents`` makes missing directories.
        """
        ...

    async def stat(self, path: StrPath, follow: bool = True) -> FileStat:
        """What stands at a path; ``follow`` looks through a link at its end."""
        ...

    async def aclose(self) -> None:
        """End everything that still runs and let go of the sandbox."""
        ...
