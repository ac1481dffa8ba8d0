"""What of a session a summary replaces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_peers.clock import VirtualClock
from mikan_agent.exceptions import ContextOverflow
from mikan_agent.harness.compaction import KEPT, RESERVE, Cut, Limits, Tally, find_cut, portions, quoted, tokens_of
from mikan_agent.harness.compactor import INSTRUCTIONS, Compactor
from mikan_agent.messages import (
    AssistantMessage,
    CompactionSummaryMessage,
    Content,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from mikan_agent.sessions.session import Session
from mikan_agent.sessions.transient import transient_session

PICTURE = ImageContent(data="AAAA", mime_type="image/png")


def user(text: str = "q" * 40) -> UserMessage:
    return UserMessage(content=text, timestamp=1)


def answer(text: str = "a" * 40, *calls: str, tokens: int = 0, timestamp: int = 1) -> AssistantMessage:
    content: list[Content] = [TextContent(text=text), *(ToolCall(id=call, name="bash") for call in calls)]
    return AssistantMessage(content=content, usage=Usage(total_tokens=tokens), timestamp=timestamp)


def result(call: str, text: str = "r" * 40) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call, tool_name="bash", content=[TextContent(text=text)])


def test_a_usual_window_leaves_the_reserve_and_keeps_twenty_thousand() -> None:
    limits = Limits(200_000)
    assert (limits.reserve, limits.most, limits.kept) == (16_384, 183_616, 20_000)
    assert (RESERVE, KEPT) == (16_384, 20_000)


def test_a_small_window_keeps_less() -> None:
    limits = Limits(8_000)
    assert (limits.reserve, limits.most, limits.kept) == (2_000, 6_000, 3_000)


def test_tokens_are_characters_by_four_and_pictures_at_a_flat_rate() -> None:
    assert tokens_of(user("x" * 41)) == 11
    assert tokens_of(UserMessage(content=[TextContent(text="x" * 8), PICTURE], timestamp=1)) == 1_202


def test_a_models_own_count_is_believed_and_what_came_later_is_added() -> None:
    tally = Tally()
    for message in (user(), answer(tokens=500), user("x" * 400)):
        tally = tally.with_message(message)
    assert tally.of_call(system=1_000) == 600


def test_without_a_count_prompt_and_tools_are_added() -> None:
    assert Tally().with_message(user("x" * 400)).of_call(system=1_000) == 1_100


def test_a_count_from_before_a_compaction_is_of_messages_that_are_gone() -> None:
    tally = Tally().with_message(CompactionSummaryMessage(summary="s" * 40, timestamp=10))
    assert tally.with_message(answer("x" * 40, tokens=90_000, timestamp=5)).of_call(0) == 20
    assert tally.with_message(answer("x" * 40, tokens=90_000, timestamp=10)).of_call(0) == 90_000


def test_a_failed_answers_count_is_not_believed() -> None:
    failed = answer("x" * 40, tokens=90_000).model_copy(update={"stop_reason": "error"})
    assert Tally().with_message(failed).of_call(0) == 10


def test_a_cut_keeps_about_what_is_wanted() -> None:
    messages: list[Message] = [user(), answer(), user(), answer(), user(), answer()]
    assert find_cut(messages, 25) == Cut(0, 4)
    assert find_cut(messages, 20) == Cut(0, 4)
    assert find_cut(messages, 41) == Cut(0, 2)


def test_a_cut_inside_a_turn_keeps_its_question() -> None:
    messages: list[Message] = [
        user("old"),
        answer(),
        user("the question"),
        answer("", "1"),
        result("1"),
        answer("", "2"),
        result("2"),
    ]
    assert find_cut(messages, 10) == Cut(0, 5, question="the question")


def test_a_call_and_its_results_stay_together_even_if_more_is_kept_than_wanted() -> None:
    messages: list[Message] = [user(), answer("", "1", "2"), result("1", "r" * 4_000), result("2", "r" * 4_000)]
    assert find_cut(messages, 10) == Cut(0, 1, question="q" * 40)


def test_an_earlier_summary_is_carried_on_and_not_summarised_again() -> None:
    messages: list[Message] = [CompactionSummaryMessage(summary="so far"), user(), answer(), user(), answer()]
    assert find_cut(messages, 20) == Cut(1, 3, "so far")


@pytest.mark.parametrize(
    "messages", [[], [user("x" * 9_999)], [CompactionSummaryMessage(summary="all"), user("x" * 9_999)]]
)
def test_the_newest_message_alone_can_not_be_cut(messages: list[Message]) -> None:
    assert find_cut(messages, 10) is None


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Conversations whose calls each have one result after them, perhaps with somebody's words between."""
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append(CompactionSummaryMessage(summary="so far"))
    names = iter(range(1_000))
    for _ in range(draw(st.integers(0, 12))):
        messages.append(user("q" * draw(st.integers(0, 400))))
        for _ in range(draw(st.integers(0, 3))):
            calls = [str(next(names)) for _ in range(draw(st.integers(0, 3)))]
            messages.append(answer("a" * draw(st.integers(0, 400)), *calls))
            for call in draw(st.permutations(calls)):
                messages.append(result(call, "r" * draw(st.integers(0, 400))))
                if draw(st.integers(0, 4)) == 0 and call != calls[-1]:
                    messages.append(user())
    return messages


@given(conversations(), st.integers(0, 2_000))
def test_no_cut_parts_a_call_from_its_result_and_each_makes_progress(messages: list[Message], kept: int) -> None:
    cut = find_cut(messages, kept)
    if cut is None:
        return
    assert cut.first < cut.kept < len(messages)
    made = {call.id for m in messages[: cut.kept] if isinstance(m, AssistantMessage) for call in m.tool_calls}
    answered = {m.tool_call_id for m in messages[: cut.kept] if isinstance(m, ToolResultMessage)}
    assert made == answered


@given(conversations(), st.integers(1, 2_000))
def test_portions_hold_every_message_once_in_order(messages: list[Message], tokens: int) -> None:
    assert "\n\n".join(portions(messages, tokens)) == "\n\n".join(filter(None, map(quoted, messages)))


def test_long_output_is_quoted_by_its_ends() -> None:
    text = quoted(result("1", "begin" + "x" * 5_000 + "end"))
    assert text.startswith("[bash] beginxxx")
    assert text.endswith("xxxend")
    assert "[… 3008 characters left out …]" in text


class _Reader:
    """Summarises as long as a prompt has no more than so many characters, and counts what it was asked."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.refused = 0
        self.told: list[str] = []

    async def summarise(self, prompt: str) -> str:
        if len(prompt) - len(INSTRUCTIONS) > self._most:
            self.refused += 1
            raise ContextOverflow("too long")
        self.told.append(prompt)
        return f"summary {len(self.told)}"


async def _talk(messages: int) -> Session:
    session = transient_session(VirtualClock())
    for number in range(messages):
        await session.append_message(user(f"{number:03} " + "字" * 3_996))
    return session


async def test_what_a_model_finds_too_long_to_summarise_at_once_it_gets_in_smaller_portions() -> None:
    session, reader = await _talk(60), _Reader(90_000)
    await Compactor(session, reader.summarise).compact(60_000, Limits(128_000), "overflow")
    assert reader.refused == 1
    assert [sum(f"{n:03} 字" in prompt for prompt in reader.told) for n in range(40)] == [1] * 40
    summary = session.context().messages[0]
    assert isinstance(summary, CompactionSummaryMessage)
    assert (summary.summary, summary.tokens_before) == (f"summary {len(reader.told)}", 60_000)


async def test_a_model_that_can_summarise_nothing_is_not_asked_for_ever() -> None:
    session, reader = await _talk(60), _Reader(0)
    with pytest.raises(ContextOverflow, match="too long"):
        await Compactor(session, reader.summarise).compact(60_000, Limits(128_000), "overflow")
    assert reader.refused == 4
    assert len(session.entries) == 60


async def test_one_message_that_is_too_long_to_summarise_is_tried_once() -> None:
    session, reader = await _talk(2), _Reader(0)
    with pytest.raises(ContextOverflow, match="too long"):
        await Compactor(session, reader.summarise).compact(2_000, Limits(128_000), "overflow")
    assert reader.refused == 1
