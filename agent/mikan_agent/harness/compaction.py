"""When a session is too long for its model, and what of it a summary replaces: pure functions over its messages.

Values: behaviour, "Harness" (16,384 tokens of reserve, the last 20,000 kept). Who writes the summary and records it is
`harness.compactor`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mikan_agent.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Content,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

RESERVE = 16_384
"""Tokens of a model's window that are left for its answer."""
KEPT = 20_000
"""Tokens of the newest messages that stay as they are."""
CHARACTERS_PER_TOKEN = 4
IMAGE_TOKENS = 1_200
_QUOTED_RESULT = 2_000
_QUOTED_ARGUMENTS = 1_000
_QUOTED_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class Limits:
    """How a model's window is used. All in tokens."""

    window: int

    @property
    def reserve(self) -> int:
        """Left for the answer; a quarter of a window too small for the usual reserve."""
        return min(RESERVE, self.window // 4)

    @property
    def most(self) -> int:
        """A longer context is compacted."""
        return self.window - self.reserve

    @property
    def kept(self) -> int:
        """Of the newest messages; half of what may be sent where the window is small."""
        return min(KEPT, self.most // 2)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a summary takes over: it replaces ``messages[first:kept]``, and continues ``previous``."""

    first: int
    kept: int
    previous: str = ""
    """The summary that stood before these messages."""
    question: str = ""
    """What is being worked on, where the cut falls between a question and its answer."""


def tokens_of(message: Message) -> int:
    """About how many tokens a message takes: characters by four, a picture at a flat rate."""
    match message:
        case UserMessage() | CustomMessage() | ToolResultMessage() | AssistantMessage():
            characters, images = _size(message.content)
        case BashExecutionMessage():
            characters, images = (0, 0) if message.exclude_from_context else _size(message.command + message.output)
        case BranchSummaryMessage() | CompactionSummaryMessage():
            characters, images = _size(message.summary)
        case _:
            return 0
    return -(-characters // CHARACTERS_PER_TOKEN) + images * IMAGE_TOKENS


def _size(content: str | Sequence[Content]) -> tuple[int, int]:
    """Characters and pictures."""
    if isinstance(content, str):
        return len(content), 0
    characters = images = 0
    for part in content:
        match part:
            case TextContent():
                characters += len(part.text)
            case ThinkingContent():
                characters += len(part.thinking)
            case ToolCall():
                characters += len(part.name) + len(str(part.arguments))
            case ImageContent():
                images += 1
    return characters, images


@dataclass(frozen=True, slots=True)
class Tally:
    """About how many tokens some messages take.

    A model's own count of its last call is believed, and what came later is estimated and added to it.
    """

    tokens: int = 0
    told: bool = False
    """Whether a model's own count is in it, which holds prompt and tools as well."""
    since: int = -1
    """Unix milliseconds; counts of calls before then were of messages that a summary has replaced."""

    def with_message(self, message: Message) -> "Tally":
        """With another message after these."""
        if isinstance(message, CompactionSummaryMessage):
            return Tally(tokens_of(message), since=message.timestamp)
        if isinstance(message, AssistantMessage) and self._counts(message):
            return Tally(message.usage.total_tokens, True, self.since)
        return Tally(self.tokens + tokens_of(message), self.told, self.since)

    def _counts(self, message: AssistantMessage) -> bool:
        told = message.usage.total_tokens > 0 and message.stop_reason not in {"error", "aborted"}
        return told and message.timestamp >= self.since

    def of_call(self, system: int) -> int:
        """Of a call; ``system``: of the prompt and the tools that come before the messages."""
        return self.tokens if self.told else self.tokens + system


def find_cut(messages: Sequence[Message], kept: int) -> Cut | None:
    """What to summarise so that about ``kept`` tokens stay; ``None``: nothing that a summary could replace.

    A call and its result are never parted. The newest message always stays.
    """
    first = 1 if messages and isinstance(messages[0], CompactionSummaryMessage) else 0
    places = [index for index in _places(messages) if index > first]
    if not places:
        return None
    tokens, wanted = 0, len(messages)
    while wanted > first and (tokens := tokens + tokens_of(messages[wanted - 1])) <= kept:
        wanted -= 1
    # The first place that keeps no more than is wanted; else the last there is, however much it keeps.
    place = next((index for index in places if index >= wanted), places[-1])
    previous = messages[0].summary if isinstance(messages[0], CompactionSummaryMessage) else ""
    return Cut(first, place, previous, _question(messages, place))


def _places(messages: Sequence[Message]) -> Iterator[int]:
    """Before which messages a cut parts no call from its result."""
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        if not waiting:
            yield index
        if isinstance(message, AssistantMessage):
            waiting = {call.id for call in message.tool_calls}
        elif isinstance(message, ToolResultMessage):
            waiting.discard(message.tool_call_id)


def _question(messages: Sequence[Message], place: int) -> str:
    if isinstance(messages[place], UserMessage):
        return ""
    asked = next((m for m in reversed(messages[:place]) if isinstance(m, UserMessage)), None)
    return "" if asked is None else _shortened(asked.text, _QUOTED_TEXT)


def quoted(message: Message) -> str:
    """A message as text for whoever summarises: long output is shortened, pictures are only named."""
    match message:
        case UserMessage() | CustomMessage():
            return f"[person] {_text(message.content, _QUOTED_TEXT)}"
        case AssistantMessage():
            said = [f"[assistant] {_shortened(message.text, _QUOTED_TEXT)}"] if message.text else []
            return "\n".join([*said, *(_call(call) for call in message.tool_calls)])
        case ToolResultMessage():
            failed = " failed" if message.is_error else ""
            return f"[{message.tool_name}{failed}] {_text(message.content, _QUOTED_RESULT)}"
        case BashExecutionMessage() if not message.exclude_from_context:
            return f"[person ran {message.command}] {_shortened(message.output, _QUOTED_RESULT)}"
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return f"[summary] {_shortened(message.summary, _QUOTED_TEXT)}"
        case _:
            return ""


def _call(call: ToolCall) -> str:
    return f"[assistant calls {call.name}] {_shortened(str(call.arguments), _QUOTED_ARGUMENTS)}"


def _text(content: str | Sequence[Content], limit: int) -> str:
    if isinstance(content, str):
        return _shortened(content, limit)
    texts = [part.text if isinstance(part, TextContent) else f"({part.type})" for part in content]
    return _shortened("\n".join(texts), limit)


def _shortened(text: str, limit: int) -> str:
    """Beginning and end of a long text: errors stand at the end."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[… {len(text) - limit} characters left out …]\n{text[-(limit // 2) :]}"


def portions(messages: Sequence[Message], tokens: int) -> Iterator[str]:
    """Quoted messages in portions of at most about so many tokens, at least one message in each."""
    limit, size, portion = tokens * CHARACTERS_PER_TOKEN, 0, list[str]()
    for text in filter(None, map(quoted, messages)):
        if portion and size + len(text) > limit:
            yield "\n\n".join(portion)
            size, portion = 0, []
        portion.append(text)
        size += len(text)
    if portion:
        yield "\n\n".join(portion)
