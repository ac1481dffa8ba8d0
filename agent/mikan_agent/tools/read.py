"""``read``: a text file by lines, or a picture."""

from pathlib import PurePosixPath

from pydantic import Field

from mikan_agent.exceptions import ToolError
from mikan_agent.executor.ports import FileType
from mikan_agent.messages import TextContent
from mikan_agent.pictures import MAX_PICTURE, image, picture_type
from mikan_agent.tools.tool import ToolArguments, ToolContext, ToolOutput, one_line, text_output

MAX_FILE = 8 * 1024 * 1024
"""Bytes of a text file that is read; the agent is small, and longer ones are for the shell."""
MAX_LINES = 2_000
MAX_BYTES = 50 * 1024


class ReadArguments(ToolArguments):
    """Arguments of ``read``."""

    path: str = Field(description="Path of the file, absolute or relative to the office directory")
    offset: int = Field(default=1, ge=1, description="First line to read, counted from 1")
    limit: int = Field(default=MAX_LINES, ge=1, le=MAX_LINES, description="Number of lines")


class ReadTool:
    """Reads files."""

    name = "read"
    description = (
        f"Read a file. Text comes by lines, at most {MAX_LINES} lines or {MAX_BYTES // 1024} KB at once: use offset "
        "and limit for more. PNG, JPEG, GIF and WebP pictures are shown to you. Other binary files are refused."
    )
    arguments = ReadArguments
    parallel = True

    def label(self, arguments: ReadArguments) -> str:
        """One line for the status of this call."""
        return one_line(arguments.label or f"read {arguments.path}")

    async def run(self, arguments: ReadArguments, context: ToolContext) -> ToolOutput:
        """Read."""
        path = context.resolve(arguments.path)
        stat = await context.executor.stat(path)
        if stat.type is FileType.DIRECTORY:
            raise ToolError(f"{arguments.path} is a directory. List it with bash: ls -la.")
        head = await context.executor.read_file(path, 0, 16)
        if kind := picture_type(head):
            return await _image(path, kind, stat.size, context)
        if stat.size > MAX_FILE:
            raise ToolError(f"{arguments.path} has {stat.size} bytes. Read parts of it with bash: sed -n 1,200p.")
        return text_output(_lines(arguments, await context.executor.read_file(path, 0, MAX_FILE)))


async def _image(path: PurePosixPath, kind: str, size: int, context: ToolContext) -> ToolOutput:
    if size > MAX_PICTURE:
        raise ToolError(f"The picture has {size} bytes; at most {MAX_PICTURE} can be shown. Make it smaller first.")
    data = await context.executor.read_file(path, 0, MAX_PICTURE)
    return ToolOutput([TextContent(text=f"Picture, {kind}, {len(data)} bytes."), image(data, kind)])


def _lines(arguments: ReadArguments, data: bytes) -> str:
    if b"\0" in data[:8192]:
        raise ToolError(f"{arguments.path} is a binary file. Look at it with bash: file, xxd, strings.")
    lines = data.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return "(the file is empty)"
    if arguments.offset > len(lines):
        raise ToolError(f"Line {arguments.offset} is beyond the end: {arguments.path} has {len(lines)} lines.")
    shown = _within(lines[arguments.offset - 1 : arguments.offset - 1 + arguments.limit])
    last = arguments.offset - 1 + len(shown)
    text = "\n".join(shown)
    if last < len(lines):
        text += f"\n\n[Lines {arguments.offset} to {last} of {len(lines)}. Use offset {last + 1} to go on.]"
    return text


def _within(lines: list[str]) -> list[str]:
    """The first lines that fit into `MAX_BYTES`; a first line beyond it is cut."""
    room = MAX_BYTES
    for count, line in enumerate(lines):
        room -= len(line.encode(errors="replace")) + 1
        if room < 0:
            return lines[:count] or [f"{line[: MAX_BYTES // 4]} [line cut: it has {len(line)} characters]"]
    return lines
