"""``attach``: a file of the office into the conversation.

Fails closed: only regular files inside the office directory as the sandbox sees it, with no link on the way, read
through the executor (never by this process, which sees more) and staged, so that what is sent is what was read.
"""

import asyncio
import mimetypes
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath

from pydantic import Field

from mikan_agent.exceptions import ToolError
from mikan_agent.executor.ports import Executor, FileType
from mikan_agent.tools.tool import ToolArguments, ToolContext, ToolOutput, one_line, text_output

MAX_FILE = 64 * 1024 * 1024
_CHUNK = 1024 * 1024


class AttachArguments(ToolArguments):
    """Arguments of ``attach``."""

    path: str = Field(description="Path of the file, inside the office directory")
    title: str = Field(default="", max_length=200, description="Title shown with the file; its name if empty")


class AttachTool:
    """Sends files into the conversation."""

    name = "attach"
    description = "Send a file from the office directory into the conversation, for people to see or download."
    arguments = AttachArguments
    parallel = False

    def label(self, arguments: AttachArguments) -> str:
        """One line for the status of this call."""
        return one_line(arguments.label or f"attach {arguments.path}")

    async def run(self, arguments: AttachArguments, context: ToolContext) -> ToolOutput:
        """Attach."""
        if not context.can_upload:
            raise ToolError("This platform takes no files. Put what matters into the answer.")
        path = _inside(context.directory, context.resolve(arguments.path))
        size = await _checked(context.executor, context.directory, path)
        with tempfile.TemporaryDirectory(prefix="mikan-attach-") as staging:
            staged = Path(staging) / "content"
            await _stage(context.executor, path, size, staged)
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            await context.uploads.upload(path.name, arguments.title or path.name, kind, lambda: _chunks(staged))
        return text_output(f"Sent {path.name} ({size} bytes) into the conversation.")


def _inside(directory: PurePosixPath, path: PurePosixPath) -> PurePosixPath:
    if ".." in path.parts or not path.is_relative_to(directory) or path == directory:
        raise ToolError(f"Only files inside {directory} can be sent. Copy it there first.")
    return path


async def _checked(executor: Executor, directory: PurePosixPath, path: PurePosixPath) -> int:
    """The size of the file; refuses a link anywhere below the office directory."""
    *above, _ = path.relative_to(directory).parts
    at = directory
    for part in above:
        at /= part
        if (await executor.stat(at, follow=False)).type is not FileType.DIRECTORY:
            raise ToolError(f"{at} is a link or no directory; only real paths can be sent.")
    stat = await executor.stat(path, follow=False)
    if stat.type is not FileType.FILE:
        raise ToolError(f"{path} is a {stat.type.value}, no regular file; only those can be sent.")
    if stat.size > MAX_FILE:
        raise ToolError(f"{path.name} has {stat.size} bytes; at most {MAX_FILE} can be sent.")
    return stat.size


async def _stage(executor: Executor, path: PurePosixPath, size: int, staged: Path) -> None:
    written = 0
    with await asyncio.to_thread(staged.open, "wb") as file:
        while written < size:
            chunk = await executor.read_file(path, written, min(_CHUNK, size - written))
            if not chunk:
                raise ToolError(f"{path.name} became shorter while it was read. Try again when nothing writes to it.")
            await asyncio.to_thread(file.write, chunk)
            written += len(chunk)


async def _chunks(staged: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(staged.open, "rb") as file:
        while chunk := await asyncio.to_thread(file.read, _CHUNK):
            yield chunk
