"""What hooks are told. All values are frozen: a handler changes a run by what it returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mikan_agent.harness.hooks import Blocked, Origin, Start, ToolResult
from mikan_agent.messages import AssistantMessage, Content, TextContent, ToolCall, ToolResultMessage
from mikan_api.responder import Usage

__all__ = [
    "AgentErrorEvent",
    "Blocked",
    "BudgetEvent",
    "CompactEvent",
    "HookName",
    "MessageEvent",
    "Origin",
    "Start",
    "ToolCallEvent",
    "ToolResult",
    "ToolResultEvent",
    "TurnEvent",
    "map_text",
]

HookName: TypeAlias = Literal[
    "before_agent_start",
    "tool_call",
    "tool_result",
    "message_end",
    "turn_end",
    "session_compact",
    "agent_error",
    "budget_exceeded",
]


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """The model wants to run a tool."""

    call: ToolCall
    """``call.name`` and ``call.arguments``."""
    origin: Origin


@dataclass(frozen=True, slots=True)
class ToolResultEvent:
    """A tool ran; nothing of it is recorded yet."""

    result: ToolResult
    origin: Origin


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """A message of the model's, or a tool's result, is complete and recorded."""

    message: AssistantMessage | ToolResultMessage
    origin: Origin


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """One model call is over, with the tools that it asked for."""

    message: AssistantMessage
    results: Sequence[ToolResultMessage]
    origin: Origin


@dataclass(frozen=True, slots=True)
class CompactEvent:
    """The session's older part was summarised."""

    reason: Literal["threshold", "overflow"]
    tokens_before: int


@dataclass(frozen=True, slots=True)
class AgentErrorEvent:
    """A run ended in an error."""

    error: str
    """What the conversation is told."""
    origin: Origin


@dataclass(frozen=True, slots=True)
class BudgetEvent:
    """A cap ended a run."""

    detail: str
    """Which one."""
    usage: Usage
    origin: Origin


def map_text(content: Sequence[Content], change: Callable[[str], str]) -> list[Content]:
    """The same content with every text changed."""
    return [
        part.model_copy(update={"text": change(part.text)}) if isinstance(part, TextContent) else part
        for part in content
    ]
