"""What agent and model said to each other, in the typed form that the public ``pi`` coding agent persists.

A session file holds these messages; the harness turns them into a model's wire form and back. Field names on disk are
camelCase. Fields and content types that are not known here survive: a message that was read is written back whole.

Source of the form: ``packages/coding-agent/docs/session.md`` of badlogic/pi-mono, section "Message Types".
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

StopReason: TypeAlias = Literal["stop", "length", "toolUse", "error", "aborted"]


def _is_none(value: object) -> bool:
    return value is None


ABSENT: Any = Field(default=None, exclude_if=_is_none)
"""An optional field that is left out on disk when it has no value."""


class Part(BaseModel):
    """Base of messages and content blocks: frozen, camelCase outside, unknown fields kept."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="allow", frozen=True
    )

    def to_json(self) -> dict[str, JsonValue]:
        """The form on disk; optional fields that are absent stay absent."""
        dumped: dict[str, JsonValue] = self.model_dump(mode="json", by_alias=True)
        return dumped


class TextContent(Part):
    """Text."""

    type: Literal["text"] = "text"
    text: str


class ThinkingContent(Part):
    """A model's reasoning."""

    type: Literal["thinking"] = "thinking"
    thinking: str


class ImageContent(Part):
    """A picture."""

    type: Literal["image"] = "image"
    data: str
    """Base64."""
    mime_type: str


class ToolCall(Part):
    """A model's wish to run a tool."""

    type: Literal["toolCall"] = "toolCall"
    id: str
    name: str
    arguments: dict[str, JsonValue] = {}


class OtherContent(Part):
    """A content block of a newer writer: kept, never interpreted."""

    type: str


_KNOWN_CONTENT = frozenset({"text", "thinking", "image", "toolCall"})


def _content_tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return kind if kind in _KNOWN_CONTENT else "other"


Content: TypeAlias = Annotated[
    Annotated[TextContent, Tag("text")]
    | Annotated[ThinkingContent, Tag("thinking")]
    | Annotated[ImageContent, Tag("image")]
    | Annotated[ToolCall, Tag("toolCall")]
    | Annotated[OtherContent, Tag("other")],
    Discriminator(_content_tag),
]


class Cost(Part):
    """Price of one model call, in USD."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0


class Usage(Part):
    """Tokens of one model call. ``input`` excludes what was read from a cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = Cost()


class UserMessage(Part):
    """What a person, or an event, said to the agent."""

    role: Literal["user"] = "user"
    content: str | list[Content]
    timestamp: int
    """Unix milliseconds, as everywhere in this module."""

    @property
    def text(self) -> str:
        """All text, parts joined by a line break."""
        return text_of(self.content)


class AssistantMessage(Part):
    """A model's answer, complete or cut off (``stop_reason`` ``error`` or ``aborted``)."""

    role: Literal["assistant"] = "assistant"
    content: list[Content]
    api: str = "openai-completions"
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    stop_reason: StopReason = "stop"
    error_message: str | None = ABSENT
    timestamp: int = 0

    @property
    def text(self) -> str:
        """All text, parts joined by a line break; reasoning is not text."""
        return text_of(self.content)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tools this answer wants to run, in order."""
        return [part for part in self.content if isinstance(part, ToolCall)]


class ToolResultMessage(Part):
    """What a tool call gave."""

    role: Literal["toolResult"] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: list[Content]
    details: JsonValue = ABSENT
    """For people and viewers; no model sees it."""
    is_error: bool = False
    timestamp: int = 0

    @property
    def text(self) -> str:
        """All text, parts joined by a line break."""
        return text_of(self.content)


class BashExecutionMessage(Part):
    """A command that a person ran beside the agent."""

    role: Literal["bashExecution"] = "bashExecution"
    command: str
    output: str = ""
    exit_code: int | None = ABSENT
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = ABSENT
    exclude_from_context: bool | None = ABSENT
    timestamp: int = 0


class CustomMessage(Part):
    """What an extension put into the conversation; a model sees ``content`` as a user's words."""

    role: Literal["custom"] = "custom"
    custom_type: str
    content: str | list[Content]
    display: bool = True
    details: JsonValue = ABSENT
    timestamp: int = 0

    @property
    def text(self) -> str:
        """All text, parts joined by a line break."""
        return text_of(self.content)


class BranchSummaryMessage(Part):
    """What happened on a branch that was left."""

    role: Literal["branchSummary"] = "branchSummary"
    summary: str
    from_id: str
    timestamp: int = 0


class CompactionSummaryMessage(Part):
    """What stands for everything that a compaction dropped."""

    role: Literal["compactionSummary"] = "compactionSummary"
    summary: str
    tokens_before: int = 0
    timestamp: int = 0


class UnknownMessage(Part):
    """A message of a role, or in a shape, that is not known here: kept, never sent to a model."""

    role: str = ""


KnownMessage: TypeAlias = Annotated[
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | BashExecutionMessage
    | CustomMessage
    | BranchSummaryMessage
    | CompactionSummaryMessage,
    Field(discriminator="role"),
]
Message: TypeAlias = (
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | BashExecutionMessage
    | CustomMessage
    | BranchSummaryMessage
    | CompactionSummaryMessage
    | UnknownMessage
)

_known: TypeAdapter[Message] = TypeAdapter(KnownMessage)


def parse_message(value: Mapping[str, object]) -> Message:
    """Read a persisted message; one that fits no known form becomes an `UnknownMessage` and loses nothing."""
    try:
        return _known.validate_python(value)
    except ValidationError:
        role = value.get("role")
        return UnknownMessage.model_validate({**value, "role": role if isinstance(role, str) else ""})


def text_of(content: str | list[Content]) -> str:
    """The text of a message's content, parts joined by a line break."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if isinstance(part, TextContent))
