"""An executor over files in memory, for tools that run no command."""

from collections.abc import AsyncIterable
from pathlib import PurePosixPath

from mikan_agent.executor.exceptions import FileMissing, NotAFile
from mikan_agent.executor.local import HOST_CONFIG
from mikan_agent.executor.paths import PathContext
from mikan_agent.executor.ports import (
    DEFAULT_GRACE,
    ExecId,
    ExecRequest,
    ExecResult,
    ExecutorConfig,
    FileStat,
    FileType,
    OnOutput,
    StrPath,
)

ROOT = PurePosixPath("/workspace/office")


class MemoryExecutor:
    """Files by absolute path; a value of type `FileType` is something that is no file. Knows no commands."""

    def __init__(self, files: dict[str, bytes | FileType] | None = None) -> None:
        self.files: dict[PurePosixPath, bytes | FileType] = {ROOT / name: v for name, v in (files or {}).items()}
        self.connects = 0

    @property
    def config(self) -> ExecutorConfig:
        """That of a host."""
        return HOST_CONFIG

    @property
    def path_context(self) -> PathContext:
        """The same on both sides."""
        return PathContext(ROOT, ROOT)

    @property
    def workspace_path(self) -> PurePosixPath:
        """The root."""
        return ROOT

    @property
    def obstacle(self) -> str:
        """Nothing is in the way."""
        return ""

    async def connect(self) -> None:
        """Nothing to wait for."""
        self.connects += 1

    async def exec(self, request: ExecRequest, on_output: OnOutput | None = None) -> ExecResult:
        """Refused: there are no commands here."""
        raise FileMissing(f"no program for {request.command or request.argv}")

    async def kill(self, exec_id: ExecId, grace: float = DEFAULT_GRACE) -> bool:
        """Nothing runs."""
        return False

    async def read_file(self, path: StrPath, offset: int = 0, limit: int | None = None) -> bytes:
        """Part of a file."""
        content = self._at(path)
        if isinstance(content, FileType):
            raise NotAFile(f"{path} is a {content.value}")
        return content[offset : None if limit is None else offset + limit]

    async def write_file(
        self, path: StrPath, data: bytes | AsyncIterable[bytes], mode: int | None = None, parents: bool = True
    ) -> None:
        """Replace a file."""
        whole = data if isinstance(data, bytes) else b"".join([chunk async for chunk in data])
        self.files[PurePosixPath(path)] = whole

    async def stat(self, path: StrPath, follow: bool = True) -> FileStat:
        """What is there."""
        content = self._at(path)
        kind = content if isinstance(content, FileType) else FileType.FILE
        return FileStat(kind, 0 if isinstance(content, FileType) else len(content), 0o644, 0)

    async def aclose(self) -> None:
        """Nothing to close."""

    def _at(self, path: StrPath) -> bytes | FileType:
        try:
            return self.files[PurePosixPath(path)]
        except KeyError:
            raise FileMissing(f"{path}: no such file or directory") from None
