"""What a model gets to see of a session: pure functions from a place in the tree to messages.

Rules: ``packages/coding-agent/docs/session.md`` of badlogic/pi-mono, section "Context Building"; tool calls and results
never part (behaviour, "Harness").
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mikan_agent.messages import (
    AssistantMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    parse_message,
)
from mikan_agent.pictures import PictureRoom
from mikan_agent.sessions.form import milliseconds, text_field
from mikan_agent.sessions.tree import Entry, EntryId

LOST_RESULT = "The run ended before this tool call's result was recorded. It may or may not have taken effect."


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model as a session remembers it."""

    provider: str
    model_id: str


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Messages for a model, oldest first; every tool call is followed by its result."""

    messages: tuple[Message, ...] = ()
    entry_ids: tuple[EntryId, ...] = ()
    """Which entry each message comes from, index by index; a synthesised result has its call's entry."""
    model: ModelChoice | None = None
    thinking_level: str = "off"


_Item = tuple[Message, EntryId]


def build_context(leaf: Entry | None, pictures: PictureRoom | None = None) -> SessionContext:
    """The context at an entry. Only what a model sees is read, however much a compaction stands for.

    ``pictures``: takes out those that are too many; ``None``: all stay.
    """
    if leaf is None:
        return SessionContext()
    items = list(pair_tool_calls(_said(list(_visible(leaf)), pictures)))
    return SessionContext(
        messages=tuple(message for message, _ in items),
        entry_ids=tuple(entry_id for _, entry_id in items),
        model=chosen_model(leaf),
        thinking_level=chosen_thinking_level(leaf),
    )


def chosen_model(leaf: Entry | None) -> ModelChoice | None:
    """The model that was chosen, or answered, last."""
    return None if leaf is None else next(filter(None, map(_model_of, leaf.ancestry())), None)


def _model_of(entry: Entry) -> ModelChoice | None:
    if entry.type == "model_change":
        return ModelChoice(text_field(entry.raw, "provider"), text_field(entry.raw, "modelId"))
    raw = entry.raw.get("message") if entry.type == "message" else None
    if isinstance(raw, Mapping) and raw.get("role") == "assistant":
        return ModelChoice(text_field(raw, "provider"), text_field(raw, "model"))
    return None


def chosen_thinking_level(leaf: Entry | None) -> str:
    """The thinking level that was chosen last."""
    entry = None if leaf is None else leaf.last_thinking_level
    while entry is not None:
        if level := text_field(entry.raw, "thinkingLevel"):
            return level
        entry = None if entry.parent is None else entry.parent.last_thinking_level
    return "off"


def _visible(leaf: Entry) -> Iterable[Entry]:
    """The path to an entry; after a compaction that, then what it kept, then what came later."""
    compaction = leaf.last_compaction
    if compaction is None:
        yield from leaf.path()
        return
    yield compaction
    kept = compaction.since(text_field(compaction.raw, "firstKeptEntryId"))[:-1]
    later = leaf.since(compaction.id)[1:]
    # Of an earlier compaction among them nothing is said: the last one's summary carries it on.
    yield from (entry for entry in [*kept, *later] if entry.type != "compaction")


def _said(entries: list[Entry], pictures: PictureRoom | None) -> Iterable[_Item]:
    """What entries say; the list is used up, since an entry holds all of its line, old pictures included."""
    items: list[_Item] = []
    while entries:
        entry = entries.pop()
        message = message_of(entry)
        if message is not None:
            items.append((message if pictures is None else pictures.fitted(message), entry.id))
    return reversed(items)


def message_of(entry: Entry) -> Message | None:
    """What an entry says to a model; ``None`` for entries that say nothing."""
    build = _BUILDERS.get(entry.type)
    return build(entry) if build else None


def _custom_message(entry: Entry) -> Message:
    fields = ("customType", "content", "display", "details")
    kept = {name: entry.raw[name] for name in fields if name in entry.raw}
    return parse_message({"role": "custom", "timestamp": milliseconds(entry.timestamp)} | kept)


def _branch_summary(entry: Entry) -> Message | None:
    summary = text_field(entry.raw, "summary")
    if not summary:
        return None
    from_id = text_field(entry.raw, "fromId")
    return BranchSummaryMessage(summary=summary, from_id=from_id, timestamp=milliseconds(entry.timestamp))


def _compaction(entry: Entry) -> Message:
    tokens = entry.raw.get("tokensBefore")
    return CompactionSummaryMessage(
        summary=text_field(entry.raw, "summary"),
        tokens_before=tokens if isinstance(tokens, int) else 0,
        timestamp=milliseconds(entry.timestamp),
    )


_BUILDERS: dict[str, Callable[[Entry], Message | None]] = {
    "message": lambda entry: entry.message,
    "custom_message": _custom_message,
    "branch_summary": _branch_summary,
    "compaction": _compaction,
}


def pair_tool_calls(items: Iterable[_Item]) -> Iterable[_Item]:
    """Make a list that every provider accepts: each call directly followed by its one result.

    A missing result is synthesised as an error; a result without a call before it, or a second one, is left out; what
    was said between a call and its result comes after the result. Else the order is kept.
    """
    waiting: dict[str, ToolCall] = {}
    answer: _Item | None = None
    said: list[_Item] = []
    for item in items:
        message = item[0]
        if isinstance(message, AssistantMessage):
            yield from _lost_results(answer, waiting)
            yield from said
            yield item
            answer, said, waiting = item, [], {call.id: call for call in message.tool_calls}
        elif not isinstance(message, ToolResultMessage):
            said.append(item)
        elif waiting.pop(message.tool_call_id, None):
            yield item
    yield from _lost_results(answer, waiting)
    yield from said


def _lost_results(answer: _Item | None, waiting: Mapping[str, ToolCall]) -> Iterable[_Item]:
    if answer is not None and isinstance(answer[0], AssistantMessage):
        for call in waiting.values():
            yield lost_result(call, answer[0].timestamp), answer[1]


def missing_results(leaf: Entry | None) -> list[ToolCall]:
    """Calls of the last answer that have no result yet; empty if anything but results came after it."""
    answered: set[str] = set()
    for entry in leaf.ancestry() if leaf is not None else ():
        message = message_of(entry)
        if isinstance(message, AssistantMessage):
            return [call for call in message.tool_calls if call.id not in answered]
        if isinstance(message, ToolResultMessage):
            answered.add(message.tool_call_id)
        elif message is not None:
            return []
    return []


def lost_result(call: ToolCall, timestamp: int) -> ToolResultMessage:
    """The error that stands for a result that was never recorded."""
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=[TextContent(text=LOST_RESULT)],
        details={"synthesised": True},
        is_error=True,
        timestamp=timestamp,
    )
