"""What a tool is, and how a model's call becomes its run.

A tool's errors for the model are `ToolError`s and `ExecutorError`s: both become the call's result, never the end of a
run. Everything else is our fault and is logged.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol

from pydantic import Field, JsonValue, ValidationError

from mikan_agent.exceptions import ToolError
from mikan_agent.executor.ports import Executor
from mikan_agent.messages import Content, TextContent
from mikan_agent.subagents.request import SubagentRequest, SubagentResult
from mikan_api.base import ApiModel


class ToolArguments(ApiModel):
    """Base of every tool's arguments: closed, so that a misspelt one is told to the model."""

    label: str = Field(default="", max_length=200, description="What this does, in a few words, for those who watch")


class Delegate(Protocol):
    """Has a subagent do something."""

    async def __call__(
        self, request: SubagentRequest, progress: Callable[[str], Awaitable[None]] | None
    ) -> SubagentResult:
        """Its result; a failure is a status, too."""


class Uploads(Protocol):
    """Brings files into the conversation."""

    async def upload(self, name: str, title: str, media_type: str, content: Callable[[], AsyncIterator[bytes]]) -> None:
        """Send a file. ``content`` may be asked for again, after a cut.

        Raises:
            TransferFailed: the message says why.
        """


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may use."""

    executor: Executor
    directory: PurePosixPath
    """The office as commands see it: where relative paths start."""
    uploads: Uploads
    can_upload: bool = True
    delegate: Delegate | None = None
    """Runs a subagent; absent inside one."""
    progress: Callable[[str], Awaitable[None]] | None = None
    """Tells those who watch, in a few words, what the call is doing."""

    def resolve(self, path: str) -> PurePosixPath:
        """A path as a model wrote it, absolute; ``..`` is left for the sandbox to resolve."""
        if not path or "\0" in path:
            raise ToolError("The path is empty or holds a NUL character.")
        return self.directory / path


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a call gave. ``details`` are for people and viewers."""

    content: list[Content]
    details: JsonValue = None
    failed: bool = False
    """The call ran, and what it ran reports a failure."""


def text_output(text: str, details: JsonValue = None, failed: bool = False) -> ToolOutput:
    """An output of one text; what is no Unicode in it, such as a byte of a file name, is replaced."""
    text = text.encode(errors="replace").decode()
    return ToolOutput([TextContent(text=text)], details, failed)


class Tool(Protocol):
    """One tool."""

    @property
    def name(self) -> str:
        """What the model calls it by."""

    @property
    def description(self) -> str:
        """What the model reads of it."""

    @property
    def arguments(self) -> type[ToolArguments]:
        """The model of its arguments."""

    @property
    def parallel(self) -> bool:
        """Whether calls of such tools may run at the same time: they change nothing."""

    def label(self, arguments: Any) -> str:
        """One line for the status of this call."""

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """Do it.

        Raises:
            ToolError, ExecutorError: told to the model.
        """


class HostTool(ABC):
    """Base of tools that work in this process alone: no call of theirs waits for a sandbox."""

    @abstractmethod
    async def answer(self, arguments: Any) -> ToolOutput:
        """Do it.

        Raises:
            ToolError: told to the model.
        """

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """The same, as `Tool` has it."""
        return await self.answer(arguments)


def parse_arguments(tool: Tool, arguments: dict[str, JsonValue]) -> ToolArguments:
    """Check a call's arguments.

    Raises:
        ToolError: names each argument that is missing, unknown or wrong.
    """
    try:
        return tool.arguments.model_validate(arguments)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        ]
        raise ToolError(f"Wrong arguments for {tool.name}. {'; '.join(faults)}.") from None


def schema(tool: Tool) -> dict[str, Any]:
    """The tool in the form of OpenAI's ``tools``."""
    parameters = tool.arguments.model_json_schema(by_alias=True)
    parameters.pop("title", None)
    parameters.pop("description", None)
    for described in parameters.get("properties", {}).values():
        described.pop("title", None)
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def one_line(text: str, limit: int = 200) -> str:
    """A text as one line of at most ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
