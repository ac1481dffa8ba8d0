"""Tools that extensions bring, as the toolbox sees them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from mikan_agent.exceptions import ToolError, TransferFailed
from mikan_agent.executor.exceptions import ExecutorError
from mikan_agent.extensions.exceptions import WrongResult
from mikan_agent.extensions.extension import Extension
from mikan_agent.tools.tool import ToolArguments, ToolContext, ToolOutput, one_line, text_output

ToolFunction: TypeAlias = Callable[[Any, ToolContext], Awaitable[str | ToolOutput]]

NAME = r"[a-zA-Z0-9_-]{1,64}"


@dataclass(frozen=True, slots=True)
class ExtensionTool:
    """Implements `mikan_agent.tools.tool.Tool`."""

    extension: Extension
    name: str
    description: str
    arguments: type[ToolArguments]
    function: ToolFunction
    parallel: bool = False

    def label(self, arguments: ToolArguments) -> str:
        """One line for the status of this call."""
        return one_line(arguments.label or self.name)

    async def run(self, arguments: ToolArguments, context: ToolContext) -> ToolOutput:
        """Run the extension's function. What it may take is for the run's budget and ``stop`` to say.

        Raises:
            ToolError: what the function told the model, or that it broke.
            ExecutorError, TransferFailed: of the sandbox and the gateway, as they are.
        """
        try:
            return _output(await self.function(arguments, context))
        except (ToolError, ExecutorError, TransferFailed, asyncio.CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001  an extension breaks nothing else
            self.extension.log.failed(f"tool {self.name}", error)
            raise ToolError(
                f"The tool broke: an error of the extension {self.extension.slug}. The agent's log has the details."
            ) from None


def _output(result: object) -> ToolOutput:
    match result:
        case str():
            return text_output(result)
        case ToolOutput():
            return result
    raise WrongResult(f"a tool returns a str or a ToolOutput, not {type(result).__name__}")
