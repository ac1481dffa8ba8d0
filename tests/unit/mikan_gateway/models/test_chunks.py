"""A whole answer from its chunks."""

import json
from typing import Any

from mikan_gateway.models.chunks import Collected


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return json.dumps({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode()


def test_pieces_of_text_thinking_and_interleaved_calls_are_joined() -> None:
    collected = Collected()
    for data in (
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "h"}),
        chunk({"reasoning_content": "m", "thinking_blocks": [{"type": "thinking", "signature": "s"}]}),
        chunk({"content": "I "}),
        chunk({"content": "call"}),
        chunk({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "read", "arguments": ""}}]}),
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "bash", "arguments": "{"}}]}),
        chunk({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}),
        chunk({}, "tool_calls"),
        json.dumps({"id": "c", "choices": [], "usage": {"total_tokens": 3}}).encode(),
    ):
        collected.add(data)

    assert collected.completion() == {
        "id": "c",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "I call",
                    "reasoning_content": "hm",
                    "thinking_blocks": [{"type": "thinking", "signature": "s"}],
                    "tool_calls": [
                        {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
                        {"id": "b", "type": "function", "function": {"name": "read", "arguments": "{}"}},
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"total_tokens": 3},
    }
