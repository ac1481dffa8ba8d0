"""litellm's chunks and errors in the plain form. The library itself is met in the integration tests."""

from typing import Any

import pytest
from pydantic_core import from_json

from mikan_gateway.models.chat import Chunk, Usage
from mikan_gateway.models.providers.litellm import Litellm, read_message, read_piece


def piece(**choice: Any) -> dict[str, Any]:
    return {
        "id": "1",
        "created": 7,
        "model": "m",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0} | choice],
    }


def test_only_known_fields_of_a_delta_pass() -> None:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "bash", "arguments": ""}, "x": 1}
    raw = piece(delta={"content": "hi", "tool_calls": [call], "provider_specific_fields": {"y": 2}, "audio": {}})

    chunk = read_piece(raw | {"citations": []})

    del call["x"]
    assert from_json(chunk.data) == {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": "hi", "tool_calls": [call]}, "finish_reason": None}],
    }
    assert not chunk.finished


def test_a_piece_with_nothing_but_usage_is_a_sign_of_life_with_usage() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cache_creation_tokens": 3}}

    assert read_piece(piece(delta={}) | {"usage": usage}) == Chunk(
        b"", usage=Usage(prompt=5, completion=2, cache_write=3)
    )


def test_a_finish_is_seen() -> None:
    assert read_piece(piece(delta={}, finish_reason="stop")).finished


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ("litellm.RateLimitError: RateLimitError: OpenAIException - Rate limited", "", "Rate limited"),
        (
            'litellm.RateLimitError: AnthropicException - b\'{"type":"error","error":{"type":"x","message":"Slow"}}\'',
            "",
            "Slow",
        ),
        ('litellm.BadRequestError: XException - {"error":{"code":"c1","message":"Bad"}}', "c1", "Bad"),
        ("litellm.BadRequestError: a {brace} in it", "", "a {brace} in it"),
    ],
)
def test_the_upstreams_own_message_is_found(said: str, code: str, message: str) -> None:
    assert read_message(said) == (code, message)


def test_nobody_wants_the_library_until_it_is_loaded() -> None:
    library = Litellm()

    assert (library.fault, library.now()) == ("", None)
