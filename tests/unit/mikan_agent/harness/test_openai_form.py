import re

import pytest

from mikan_agent.harness.openai_form import build_messages
from mikan_agent.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UnknownMessage,
    UserMessage,
)

IMAGE = ImageContent(data="AAAA", mime_type="image/png")
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_plain_messages() -> None:
    assert build_messages(
        [
            UserMessage(content="hi", timestamp=1),
            AssistantMessage(content=[ThinkingContent(thinking="hm"), TextContent(text="hello")]),
            UserMessage(content=[TextContent(text="a"), TextContent(text="b")], timestamp=2),
            UserMessage(content=[TextContent(text="see"), IMAGE], timestamp=3),
            CompactionSummaryMessage(summary="much"),
            CustomMessage(custom_type="x", content="noted"),
        ]
    ) == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "a\nb"},
        {"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE_PART]},
        {"role": "user", "content": "Summary of the conversation so far:\nmuch"},
        {"role": "user", "content": "noted"},
    ]


def test_calls_and_their_results_with_pictures_after_the_last_result() -> None:
    calls = [ToolCall(id="a", name="read", arguments={"path": "ü"}), ToolCall(id="b", name="bash")]
    form = build_messages(
        [
            AssistantMessage(content=[*calls]),
            ToolResultMessage(tool_call_id="a", tool_name="read", content=[IMAGE]),
            ToolResultMessage(tool_call_id="b", tool_name="bash", content=[], is_error=True),
            UserMessage(content="and?", timestamp=1),
        ]
    )
    assert form[0]["content"] is None
    assert [c["function"] for c in form[0]["tool_calls"]] == [
        {"name": "read", "arguments": '{"path": "ü"}'},
        {"name": "bash", "arguments": "{}"},
    ]
    assert form[1:3] == [
        {"role": "tool", "tool_call_id": "a", "content": "(see the picture below)"},
        {"role": "tool", "tool_call_id": "b", "content": "(no output)"},
    ]
    assert form[3]["content"][1] == IMAGE_PART
    assert form[4] == {"role": "user", "content": "and?"}


def test_what_no_model_should_read_is_left_out() -> None:
    hidden: list[Message] = [
        AssistantMessage(content=[], stop_reason="aborted"),
        AssistantMessage(content=[ThinkingContent(thinking="hm")], stop_reason="error"),
        BashExecutionMessage(command="ls", exclude_from_context=True),
        UnknownMessage(role="newer"),
    ]
    assert build_messages(hidden) == []


@pytest.mark.parametrize(
    ("name", "sent"),
    [("bash", "bash"), ("", "unknown"), ("bash<|channel|>json", "bash__channel__json"), ("x" * 90, "x" * 64)],
)
def test_a_name_that_no_tool_can_have_is_sent_as_one_that_servers_accept(name: str, sent: str) -> None:
    form = build_messages([AssistantMessage(content=[ToolCall(id="a", name=name)])])
    assert form[0]["tool_calls"][0]["function"]["name"] == sent


@pytest.mark.parametrize("call_id", ["call_" + "x" * 36, "call_1|fc_2", "call.1", "ä"])
def test_an_id_that_some_servers_refuse_is_sent_as_a_short_one_with_its_result(call_id: str) -> None:
    call, other = ToolCall(id=call_id, name="bash"), ToolCall(id=f"{call_id}?", name="bash")
    result = ToolResultMessage(tool_call_id=call_id, tool_name="bash", content=[TextContent(text="x")])
    form = build_messages([AssistantMessage(content=[call, other]), result])
    first, second = (c["id"] for c in form[0]["tool_calls"])
    assert re.fullmatch("call_[0-9a-f]{20}", first)
    assert second != first
    assert form[1]["tool_call_id"] == first
    assert build_messages([result]) == [form[1]]


def test_a_call_whose_id_another_of_its_answer_has_is_left_out_since_there_is_one_result() -> None:
    calls = [ToolCall(id="a", name="bash"), ToolCall(id="a", name="read"), ToolCall(id="b", name="bash")]
    form = build_messages([AssistantMessage(content=[*calls])])
    assert [(c["id"], c["function"]["name"]) for c in form[0]["tool_calls"]] == [("a", "bash"), ("b", "bash")]


def test_text_that_is_blank_is_never_sent_as_text() -> None:
    form = build_messages(
        [
            UserMessage(content=" ", timestamp=1),
            AssistantMessage(content=[TextContent(text="\n\n"), ToolCall(id="a", name="bash")]),
            ToolResultMessage(tool_call_id="a", tool_name="bash", content=[TextContent(text=" \n")]),
            AssistantMessage(content=[TextContent(text="\n")]),
            UserMessage(content=[TextContent(text=""), IMAGE], timestamp=2),
            UserMessage(content=[TextContent(text="")], timestamp=3),
        ]
    )
    assert [message["content"] for message in form] == ["(no text)", None, "(no output)", [IMAGE_PART], "(no text)"]
