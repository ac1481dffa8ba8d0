"""The session file is a contract with the public pi coding agent: these lines, exactly.

The form: ``packages/coding-agent/docs/session.md`` of badlogic/pi-mono.
"""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.messages import (
    AssistantMessage,
    Cost,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    parse_message,
)
from mikan_agent.sessions.store import SessionStore
from mikan_api.session_keys import SessionKey

STAMP = "2026-03-01T12:00:00.123Z"


class FixedClock:
    """Always the same moment."""

    def now(self) -> datetime:
        return datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


USER = {"role": "user", "content": "Hello", "timestamp": 1733234567890}
PICTURE = {
    "role": "user",
    "content": [{"type": "text", "text": "Look"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}],
    "timestamp": 1733234567891,
}
ASSISTANT = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "Hi!"},
        {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": "ls", "timeout": None}},
    ],
    "api": "openai-completions",
    "provider": "openai",
    "model": "gpt-4o",
    "usage": {
        "input": 10,
        "output": 5,
        "cacheRead": 2,
        "cacheWrite": 1,
        "totalTokens": 18,
        "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0.01, "cacheWrite": 0.02, "total": 0.33},
    },
    "stopReason": "toolUse",
    "timestamp": 1733234567892,
}
RESULT = {
    "role": "toolResult",
    "toolCallId": "call_1",
    "toolName": "bash",
    "content": [{"type": "text", "text": "README.md"}],
    "details": {"exitCode": 0},
    "isError": False,
    "timestamp": 1733234567893,
}


def test_typed_messages_are_written_in_this_form() -> None:
    assert UserMessage(content="Hello", timestamp=1733234567890).to_json() == USER
    picture = [TextContent(text="Look"), ImageContent(data="aGk=", mime_type="image/png")]
    assert UserMessage(content=picture, timestamp=1733234567891).to_json() == PICTURE
    answer = AssistantMessage(
        content=[
            ThinkingContent(thinking="Hm."),
            TextContent(text="Hi!"),
            ToolCall(id="call_1", name="bash", arguments={"command": "ls", "timeout": None}),
        ],
        api="openai-completions",
        provider="openai",
        model="gpt-4o",
        usage=Usage(
            input=10,
            output=5,
            cache_read=2,
            cache_write=1,
            total_tokens=18,
            cost=Cost(input=0.1, output=0.2, cache_read=0.01, cache_write=0.02, total=0.33),
        ),
        stop_reason="toolUse",
        timestamp=1733234567892,
    )
    assert answer.to_json() == ASSISTANT
    result = ToolResultMessage(
        tool_call_id="call_1",
        tool_name="bash",
        content=[TextContent(text="README.md")],
        details={"exitCode": 0},
        timestamp=1733234567893,
    )
    assert result.to_json() == RESULT


@pytest.mark.parametrize(
    "message",
    [
        USER,
        PICTURE,
        ASSISTANT,
        RESULT,
        ASSISTANT | {"stopReason": "error", "errorMessage": "overloaded", "responseId": "r_1", "future": None},
        ASSISTANT
        | {"content": [{"type": "text", "text": "a", "textSignature": "s"}, {"type": "of_the_future", "x": 1}]},
        {"role": "custom", "customType": "x", "content": "note", "display": False, "timestamp": 1},
        {
            "role": "bashExecution",
            "command": "ls",
            "output": "a",
            "cancelled": False,
            "truncated": False,
            "timestamp": 1,
        },
        {"role": "of_the_future", "anything": [1, None]},
        {"role": "user", "content": 5},
    ],
)
def test_a_message_that_was_read_is_written_back_whole(message: dict[str, object]) -> None:
    assert parse_message(message).to_json() == message


def test_older_messages_without_usage_are_readable() -> None:
    message = parse_message({"role": "assistant", "content": [{"type": "text", "text": "Hi!"}], "stopReason": "stop"})
    assert isinstance(message, AssistantMessage)
    assert (message.text, message.usage) == ("Hi!", Usage())


async def test_a_session_file_has_these_lines(tmp_path: Path) -> None:
    store = SessionStore(ConfinedDirectory(tmp_path), "/workspace/office", FixedClock())
    async with await store.open(SessionKey("C123")) as session:
        first = await session.append_message(parse_message(USER))
        await session.append_message(parse_message(ASSISTANT))
        await session.append_message(parse_message(RESULT))
        await session.append_model_change("openai", "gpt-4o")
        await session.append_thinking_level_change("high")
        await session.append_compaction("Summary.", first, 50_000, {"readFiles": []})
        await session.append_custom("ext", {"count": 42})
        await session.append_custom_message("ext", "Injected", display=True)
        await session.append_custom_message("ext", [TextContent(text="hidden")], display=False, details=[1])
        await session.append_label(first, "checkpoint-1")
        await session.append_label(first, None)
        await session.append_session_info("Refactor")
        await session.branch_with_summary(first, "Explored A.")
        name = session.file_name
        path = session.path
    assert re.fullmatch(r"2026-03-01T12-00-00-123Z_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.jsonl", name)
    assert str(path) == str(tmp_path / name)
    header, *entries = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
    identity = header.pop("id")
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", identity)
    assert header == {"type": "session", "version": 3, "timestamp": STAMP, "cwd": "/workspace/office"}

    ids = [entry.pop("id") for entry in entries]
    assert len(set(ids)) == 13
    assert all(re.fullmatch(r"[0-9a-f]{8}", entry_id) for entry_id in ids)
    assert [entry.pop("parentId") for entry in entries] == [None, *ids[:11], first]
    assert {entry.pop("timestamp") for entry in entries} == {STAMP}
    assert entries == [
        {"type": "message", "message": USER},
        {"type": "message", "message": ASSISTANT},
        {"type": "message", "message": RESULT},
        {"type": "model_change", "provider": "openai", "modelId": "gpt-4o"},
        {"type": "thinking_level_change", "thinkingLevel": "high"},
        {
            "type": "compaction",
            "summary": "Summary.",
            "firstKeptEntryId": first,
            "tokensBefore": 50_000,
            "details": {"readFiles": []},
        },
        {"type": "custom", "customType": "ext", "data": {"count": 42}},
        {"type": "custom_message", "customType": "ext", "content": "Injected", "display": True},
        {
            "type": "custom_message",
            "customType": "ext",
            "content": [{"type": "text", "text": "hidden"}],
            "display": False,
            "details": [1],
        },
        {"type": "label", "targetId": first, "label": "checkpoint-1"},
        {"type": "label", "targetId": first},
        {"type": "session_info", "name": "Refactor"},
        {"type": "branch_summary", "fromId": ids[11], "summary": "Explored A."},
    ]
