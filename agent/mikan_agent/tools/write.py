"""``write``: a whole file."""

from pydantic import Field

from mikan_agent.tools.tool import ToolArguments, ToolContext, ToolOutput, one_line, text_output


class WriteArguments(ToolArguments):
    """Arguments of ``write``."""

    path: str = Field(description="Path of the file, absolute or relative to the office directory")
    content: str = Field(description="The whole new content")


class WriteTool:
    """Writes files."""

    name = "write"
    description = "Write a file, in place of what was there; missing directories are made. To change a part, use edit."
    arguments = WriteArguments
    parallel = False

    def label(self, arguments: WriteArguments) -> str:
        """One line for the status of this call."""
        return one_line(arguments.label or f"write {arguments.path}")

    async def run(self, arguments: WriteArguments, context: ToolContext) -> ToolOutput:
        """Write."""
        data = arguments.content.encode(errors="surrogatepass")
        await context.executor.write_file(context.resolve(arguments.path), data)
        return text_output(f"Wrote {len(data)} bytes to {arguments.path}.")
