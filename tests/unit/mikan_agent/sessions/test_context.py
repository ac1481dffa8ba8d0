"""What a model sees of a path through the tree."""

import io
import tracemalloc
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from mikan_agent.messages import (
    AssistantMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from mikan_agent.pictures import PictureRoom, pictures_in
from mikan_agent.records.lines import encode
from mikan_agent.sessions.context import LOST_RESULT, ModelChoice, SessionContext, build_context, pair_tool_calls
from mikan_agent.sessions.journal import load
from mikan_agent.sessions.tree import EntryId, SessionTree

STAMP = "2026-01-01T00:00:00.000Z"
STAMP_MS = 1_767_225_600_000


def said(text: str) -> dict[str, object]:
    return {"type": "message", "message": {"role": "user", "content": text, "timestamp": 1}}


def answered(text: str, model: str = "m1") -> dict[str, object]:
    content = [{"type": "text", "text": text}]
    return {"type": "message", "message": {"role": "assistant", "content": content, "provider": "p", "model": model}}


def tree_of(*entries: Mapping[str, object]) -> SessionTree:
    """A chain with ids ``e0``, ``e1``, ...; an entry may name another parent."""
    lines = [encode({"type": "session", "version": 3, "id": "s"})]
    for index, entry in enumerate(entries):
        parent = f"e{index - 1}" if index else None
        lines.append(encode({"id": f"e{index}", "parentId": parent, "timestamp": STAMP, **entry}))
    return load(io.BytesIO(b"".join(lines))).tree


def context_of(tree: SessionTree) -> SessionContext:
    return build_context(tree.leaf)


def texts(context: SessionContext) -> list[str]:
    return [m.summary if isinstance(m, CompactionSummaryMessage) else getattr(m, "text", "") for m in context.messages]


def test_messages_come_from_the_root_to_the_leaf() -> None:
    context = context_of(tree_of(said("a"), answered("b"), said("c")))
    assert texts(context) == ["a", "b", "c"]
    assert context.entry_ids == ("e0", "e1", "e2")
    assert context.model == ModelChoice("p", "m1")
    assert context.thinking_level == "off"


def test_the_last_choice_of_model_and_thinking_level_counts() -> None:
    tree = tree_of(
        {"type": "thinking_level_change", "thinkingLevel": "high"},
        said("a"),
        answered("b", "m1"),
        {"type": "model_change", "provider": "q", "modelId": "m2"},
        {"type": "thinking_level_change", "thinkingLevel": "low"},
    )
    context = context_of(tree)
    assert (context.model, context.thinking_level) == (ModelChoice("q", "m2"), "low")


def test_pictures_that_are_taken_out_are_not_held_meanwhile() -> None:
    size = 500_000
    picture = {"type": "image", "data": "A" * size, "mimeType": "image/png"}
    shown = {"type": "message", "message": {"role": "user", "content": [picture], "timestamp": 1}}
    leaf = tree_of(*[shown] * 40).leaf
    tracemalloc.start()
    try:
        context = build_context(leaf, PictureRoom(2 * size))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(map(pictures_in, context.messages)) == 2 * size
    assert peak < 10 * size


def test_a_branch_that_was_left_is_not_seen() -> None:
    tree = tree_of(said("a"), answered("left"), {**said("b"), "parentId": "e0"})
    assert texts(context_of(tree)) == ["a", "b"]


def test_a_compaction_shows_its_summary_then_what_it_kept_then_what_came_later() -> None:
    compaction = {"type": "compaction", "summary": "S", "firstKeptEntryId": "e2", "tokensBefore": 50}
    context = context_of(tree_of(said("a"), answered("b"), said("c"), answered("d"), compaction, said("e")))
    assert texts(context) == ["S", "c", "d", "e"]
    assert context.entry_ids == ("e4", "e2", "e3", "e5")
    assert context.messages[0] == CompactionSummaryMessage(summary="S", tokens_before=50, timestamp=STAMP_MS)


def test_only_the_last_compaction_counts() -> None:
    first = {"type": "compaction", "summary": "S1", "firstKeptEntryId": "e1", "tokensBefore": 1}
    second = {"type": "compaction", "summary": "S2", "firstKeptEntryId": "e1", "tokensBefore": 2}
    context = context_of(tree_of(said("a"), said("b"), first, said("c"), second, said("d")))
    assert texts(context) == ["S2", "b", "c", "d"]


def test_a_compaction_that_keeps_an_unknown_entry_keeps_nothing() -> None:
    compaction = {"type": "compaction", "summary": "S", "firstKeptEntryId": "gone", "tokensBefore": 1}
    assert texts(context_of(tree_of(said("a"), compaction, said("b")))) == ["S", "b"]


def test_a_branch_summary_and_an_extensions_message_speak_and_its_state_does_not() -> None:
    tree = tree_of(
        said("a"),
        {"type": "custom", "customType": "x", "data": {"secret": 1}},
        {"type": "custom_message", "customType": "x", "content": "note", "display": False, "details": {"k": 1}},
        {"type": "branch_summary", "fromId": "zz", "summary": "went there"},
        {"type": "branch_summary", "fromId": "zz", "summary": ""},
        {"type": "label", "targetId": "e0", "label": "mark"},
        {"type": "session_info", "name": "n"},
        {"type": "of_the_future", "content": "?"},
    )
    context = context_of(tree)
    assert [m.role for m in context.messages] == ["user", "custom", "branchSummary"]
    custom = CustomMessage(custom_type="x", content="note", display=False, details={"k": 1}, timestamp=STAMP_MS)
    assert context.messages[1] == custom


def test_damaged_fields_do_not_break_a_context() -> None:
    tree = tree_of(
        {"type": "thinking_level_change", "thinkingLevel": 5},
        {"type": "model_change"},
        {"type": "message"},
        {"type": "message", "message": "text"},
        {"type": "message", "message": {"role": 7}},
        {"type": "compaction"},
        said("a"),
    )
    context = context_of(tree)
    assert texts(context) == ["", "a"]
    assert (context.model, context.thinking_level) == (ModelChoice("", ""), "off")


def call(*ids: str) -> AssistantMessage:
    return AssistantMessage(content=[ToolCall(id=i, name="bash") for i in ids], timestamp=9)


def result(call_id: str) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="bash", content=[TextContent(text="ok")])


def user(text: str) -> UserMessage:
    return UserMessage(content=text, timestamp=1)


def lost(call_id: str) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id,
        tool_name="bash",
        content=[TextContent(text=LOST_RESULT)],
        details={"synthesised": True},
        is_error=True,
        timestamp=9,
    )


def paired(*messages: Message) -> list[Message]:
    return [m for m, _ in pair_tool_calls([(m, EntryId("")) for m in messages])]


def test_complete_turns_stay_as_they_are() -> None:
    messages = [user("a"), call("1", "2"), result("2"), result("1"), call(), user("b")]
    assert paired(*messages) == messages


def test_a_missing_result_is_synthesised_before_anything_else_is_said() -> None:
    assert paired(call("1", "2"), result("1"), user("b"), call()) == [
        call("1", "2"),
        result("1"),
        lost("2"),
        user("b"),
        call(),
    ]
    assert paired(call("1")) == [call("1"), lost("1")]


def test_a_result_without_its_call_and_a_second_one_are_left_out() -> None:
    assert paired(result("0"), user("a"), call("1"), result("1"), result("1"), result("9")) == [
        user("a"),
        call("1"),
        result("1"),
    ]


def test_what_was_said_between_a_call_and_its_result_comes_after_it() -> None:
    assert paired(call("1"), user("wait"), result("1")) == [call("1"), result("1"), user("wait")]


_MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.text(max_size=2)),
        st.lists(st.sampled_from("abc"), unique=True, max_size=3).map(lambda ids: call(*ids)),
        st.sampled_from("abcd").map(result),
    ),
    max_size=12,
)


@given(_MESSAGES)
def test_every_call_is_followed_by_exactly_its_results(messages: list[Message]) -> None:
    open_calls: list[str] = []
    for message in paired(*messages):
        if isinstance(message, ToolResultMessage):
            open_calls.remove(message.tool_call_id)
            continue
        assert open_calls == []
        if isinstance(message, AssistantMessage):
            open_calls = [c.id for c in message.tool_calls]
    assert open_calls == []
    spoken = [m for m in messages if not isinstance(m, ToolResultMessage)]
    assert [m for m in paired(*messages) if not isinstance(m, ToolResultMessage)] == spoken
    assert paired(*paired(*messages)) == paired(*messages)
