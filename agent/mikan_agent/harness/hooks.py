"""Where extensions may look at a run and step in: the port between the turn loop and whoever registers hooks.

The loop calls these and obeys what they return; which extensions there are, in which order they are asked and what an
error in one means is `mikan_agent.extensions`' affair. A hook never raises into the loop, except that it is cancelled.
Names and semantics: the seeds, "Extension interface".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import JsonValue

from mikan_agent.messages import AssistantMessage, Content, ToolCall, ToolResultMessage
from mikan_api.messaging import Attachment
from mikan_api.responder import Usage


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a run comes from. A scheduled event has no message: everything but ``kind`` and ``platform`` is unset."""

    kind: Literal["interactive", "event"]
    platform: str
    message_id: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    thread_id: str | None = None
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """A run that is about to begin. Nothing of it is in the session yet."""

    system_prompt: str
    prompt: str
    """The person's words, or the event's text."""
    origin: Origin


@dataclass(frozen=True, slots=True)
class Blocked:
    """Not to be done; ``reason`` is told to whoever asked."""

    reason: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call gave, before it is recorded and shown to the model."""

    call: ToolCall
    content: Sequence[Content]
    is_error: bool
    details: JsonValue = None


class Hooks(Protocol):
    """All hooks of one runner."""

    async def before_agent_start(self, start: Start) -> Start | Blocked:
        """Before the first model call of a run; may rewrite both prompts. Blocked: no model call, nothing recorded."""

    async def tool_call(self, call: ToolCall, origin: Origin) -> Blocked | None:
        """Before a tool runs. Blocked: its result is an error that carries the reason."""

    async def tool_result(self, result: ToolResult, origin: Origin) -> ToolResult:
        """After a tool ran; what it returns is what the session keeps and the model sees."""

    async def message_end(self, message: AssistantMessage | ToolResultMessage, origin: Origin) -> None:
        """A message is complete and recorded."""

    async def turn_end(self, message: AssistantMessage, results: Sequence[ToolResultMessage], origin: Origin) -> None:
        """One model call with the tools it asked for is over."""

    async def session_compact(self, reason: Literal["threshold", "overflow"], tokens_before: int) -> None:
        """The session was compacted."""

    async def agent_error(self, error: str, origin: Origin) -> None:
        """The run ended in an error; ``error`` is what the conversation is told."""

    async def budget_exceeded(self, detail: str, usage: Usage, origin: Origin) -> None:
        """A cap of the run's budget ended it."""


class NoHooks:
    """Implements `Hooks` where there is no extension."""

    async def before_agent_start(self, start: Start) -> Start | Blocked:
        return start

    async def tool_call(self, call: ToolCall, origin: Origin) -> Blocked | None:
        return None

    async def tool_result(self, result: ToolResult, origin: Origin) -> ToolResult:
        return result

    async def message_end(self, message: AssistantMessage | ToolResultMessage, origin: Origin) -> None:
        return None

    async def turn_end(self, message: AssistantMessage, results: Sequence[ToolResultMessage], origin: Origin) -> None:
        return None

    async def session_compact(self, reason: Literal["threshold", "overflow"], tokens_before: int) -> None:
        return None

    async def agent_error(self, error: str, origin: Origin) -> None:
        return None

    async def budget_exceeded(self, detail: str, usage: Usage, origin: Origin) -> None:
        return None
