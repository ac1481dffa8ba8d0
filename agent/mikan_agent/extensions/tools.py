"""Tools that extensions bring, as the toolbox sees them."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import JsonValue, TypeAdapter, ValidationError

from mikan_agent.exceptions import ToolError, TransferFailed
from mikan_agent.executor.exceptions import ExecutorError
from mikan_agent.extensions.exceptions import WrongResult
from mikan_agent.extensions.extension import Extension
from mikan_agent.messages import Content
from mikan_agent.records.exceptions import NotJson
from mikan_agent.records.lines import encode
from mikan_agent.tools.tool import HostTool, ToolArguments, ToolContext, ToolOutput, one_line, text_output

Answer: TypeAlias = Awaitable[str | ToolOutput]
HostFunction: TypeAlias = Callable[[Any], Answer]
SandboxFunction: TypeAlias = Callable[[Any, ToolContext], Answer]

_CONTENT: TypeAdapter[list[Content]] = TypeAdapter(list[Content])
_DETAILS: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)

NAME = r"[a-zA-Z0-9_-]{1,64}"


@dataclass(frozen=True)
class _Described:
    extension: Extension
    name: str
    description: str
    arguments: type[ToolArguments]
    parallel: bool

    def label(self, arguments: ToolArguments) -> str:
        """One line for the status of this call."""
        return one_line(arguments.label or self.name)

    async def _output(self, function: Callable[..., Answer], *arguments: object) -> ToolOutput:
        """What the extension's function gives. How long it may take is for the run's budget and ``stop`` to say.

        Raises:
            ToolError: what the function told the model, or that it broke.
            ExecutorError, TransferFailed: of the sandbox and the gateway, as they are.
        """
        try:
            return _checked(await self.extension.call(function, *arguments, seconds=None))
        except (ToolError, ExecutorError, TransferFailed):
            raise
        except Exception as error:  # noqa: BLE001  an extension breaks nothing else
            self.extension.log.failed(f"tool {self.name}", error)
            raise ToolError(
                f"The tool broke: an error of the extension {self.extension.slug}. The agent's log has the details."
            ) from None


@dataclass(frozen=True)
class HostExtensionTool(_Described, HostTool):
    """A tool that works in this process; no call of it waits for a sandbox."""

    function: HostFunction

    async def answer(self, arguments: ToolArguments) -> ToolOutput:
        """Run the extension's function."""
        return await self._output(self.function, arguments)


@dataclass(frozen=True)
class SandboxExtensionTool(_Described):
    """A tool that uses the office's sandbox; implements `mikan_agent.tools.tool.Tool`."""

    function: SandboxFunction

    async def run(self, arguments: ToolArguments, context: ToolContext) -> ToolOutput:
        """Run the extension's function."""
        return await self._output(self.function, arguments, context)


ExtensionTool: TypeAlias = HostExtensionTool | SandboxExtensionTool


def _checked(result: object) -> ToolOutput:
    match result:
        case str():
            return text_output(result)
        case ToolOutput(content=content, details=details, failed=bool() as failed):
            return ToolOutput(*checked_parts(content, details), failed)
        case ToolOutput():
            raise WrongResult("failed: of a wrong type")
    raise WrongResult(f"a tool returns a str or a ToolOutput, not {type(result).__name__}")


def checked_parts(content: Iterable[Content], details: JsonValue) -> tuple[list[Content], JsonValue]:
    """What an extension gives for a tool's result, as a session can keep it.

    Raises:
        WrongResult: it can't.
    """
    try:
        parts, details = _CONTENT.validate_python(list(content)), _DETAILS.validate_python(details)
        encode({"details": details})  # NaN, say, is no JSON value
        return parts, details
    except (ValidationError, TypeError, NotJson):
        raise WrongResult("content is a list of content blocks, and details are JSON values") from None
