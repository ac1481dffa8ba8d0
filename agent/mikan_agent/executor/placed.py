"""What every Executor is and does whatever its bridge: it knows its sandbox, and takes content in either form."""

from collections.abc import AsyncIterable, AsyncIterator
from pathlib import PurePosixPath

from mikan_agent.executor.paths import PathContext
from mikan_agent.executor.ports import ExecutorConfig


class PlacedExecutor:
    """An executor for one sandbox."""

    def __init__(self, config: ExecutorConfig, path_context: PathContext) -> None:
        self._config = config
        self._path_context = path_context

    @property
    def config(self) -> ExecutorConfig:
        """The sandbox in use."""
        return self._config

    @property
    def path_context(self) -> PathContext:
        """How this process's paths and the commands' paths correspond."""
        return self._path_context

    @property
    def workspace_path(self) -> PurePosixPath:
        """The workspace root as commands see it."""
        return self._path_context.runtime_root


async def in_chunks(data: bytes | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Content as a stream, whichever way it was given."""
    if isinstance(data, bytes | bytearray | memoryview):
        yield bytes(data)
        return
    async for chunk in data:
        yield chunk
