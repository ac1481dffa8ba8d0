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
