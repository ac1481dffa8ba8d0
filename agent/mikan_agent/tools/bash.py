"""``bash``: a command in the sandbox's shell."""

import asyncio
from contextlib import suppress

from pydantic import Field, JsonValue

from mikan_agent.executor.output import OutputCollector
from mikan_agent.executor.ports import ExecRequest, ExecResult
from mikan_agent.tools.tool import ToolArguments, ToolContext, ToolOutput, one_line, text_output

DEFAULT_TIMEOUT = 900
MAX_TIMEOUT = 24 * 3600
_STORE_BOUND = 1.0
"""Seconds for keeping what a command had printed when its call was cut short."""


class BashArguments(ToolArguments):
    """Arguments of ``bash``."""

    command: str = Field(min_length=1, description="Command line for the shell")
    timeout: float = Field(
        default=DEFAULT_TIMEOUT, gt=0, le=MAX_TIMEOUT, description="Seconds after which the command is killed"
    )


class BashTool:
    """Runs commands."""

    name = "bash"
    description = (
        "Run a shell command in the sandbox, in the office directory. Returns what it printed, standard output and "
        "error together, and its exit code. Long output is cut in the middle and kept whole in a file under scratch/. "
        "A process left in the background lives on; send its output to a file."
    )
    arguments = BashArguments
    parallel = False

    def label(self, arguments: BashArguments) -> str:
        """One line for the status of this call."""
        return one_line(arguments.label or f"$ {arguments.command}")

    async def run(self, arguments: BashArguments, context: ToolContext) -> ToolOutput:
        """Run."""
        request = ExecRequest(command=arguments.command, cwd=context.directory, timeout=arguments.timeout)
        kept = context.directory / "scratch" / f"bash-{request.exec_id}.log"
        output = OutputCollector(context.executor, kept)
        try:
            result = await context.executor.exec(request, output.add)
        except BaseException:
            with suppress(TimeoutError):
                async with asyncio.timeout(_STORE_BOUND):
                    await output.aclose()
            raise
        capped = await output.finish()
        details: dict[str, JsonValue] = {
            "exitCode": result.exit_code,
            "truncated": capped.truncated,
            "totalBytes": capped.total_bytes,
        }
        text = capped.text.rstrip("\n")
        ending = _ending(result, arguments.timeout)
        failed = bool(ending)
        return text_output("\n\n".join(part for part in (text or "(no output)", ending) if part), details, failed)


def _ending(result: ExecResult, timeout: float) -> str:
    if result.timed_out:
        ending = f"The command was killed after its time limit of {timeout:g} s; nothing of it runs any more."
    elif result.killed:
        ending = "The command was killed."
    elif result.signal is not None:
        ending = f"The command was ended by signal {result.signal} (exit code {result.exit_code})."
    elif result.exit_code:
        ending = f"Exit code {result.exit_code}"
    else:
        return ""
    return f"{ending} {result.survivors} of its processes could not be ended." if result.survivors else ending
