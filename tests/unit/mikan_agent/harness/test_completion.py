import json
from typing import Any

import pytest

from mikan_agent.exceptions import ModelRequestRefused, ModelUnreachable
from mikan_agent.harness.completion import MAX_TOOL_CALLS, Completion, StreamedError
from mikan_agent.messages import Cost, TextContent, ThinkingContent, ToolCall, Usage


def completion(*deltas: dict[str, Any], finish: str | None = "stop") -> tuple[Completion, list[str]]:
    told: list[str] = []
    result = Completion("openai/gpt", told.append, 1000)
    for delta in deltas:
        result.feed(json.dumps({"choices": [{"index": 0, "delta": delta}]}))
    if finish:
        result.feed(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
    return result, told


def call(index: int | None, arguments: str, identity: str | None = None, name: str | None = None) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "id": identity, "function": {"name": name, "arguments": arguments}}]}


def test_text_is_told_as_it_comes_and_kept() -> None:
    result, told = completion({"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"})
    message = result.message()
    assert told == ["a", "b"]
    assert message.content == [TextContent(text="ab")]
    assert (message.provider, message.model, message.stop_reason, message.timestamp) == ("openai", "gpt", "stop", 1000)


def test_thinking_is_kept_and_not_told() -> None:
    result, told = completion({"reasoning_content": "hm"}, {"content": "a"})
    assert told == ["a"]
    assert result.message().content == [ThinkingContent(thinking="hm"), TextContent(text="a")]


def test_text_in_parts_is_text_and_reasoning_among_them_is_not_told() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    result, told = completion({"content": [thinking]}, {"content": [{"type": "text", "text": "a"}]}, {"content": "b"})
    assert told == ["a", "b"]
    assert result.message().content == [ThinkingContent(thinking="hm"), TextContent(text="ab")]


def test_a_refusal_is_told_as_text() -> None:
    result, told = completion({"content": None, "refusal": "I can't"}, {"refusal": " do that."})
    assert told == ["I can't", " do that."]
    assert result.message().text == "I can't do that."


def test_calls_are_put_together_from_their_pieces() -> None:
    result, _ = completion(
        call(0, "", "a", "read"), call(1, '{"x"', "b", "bash"), call(0, '{"path":'), call(1, ": 1}"), call(0, '"f"}'),
        finish="tool_calls",
    )  # fmt: skip
    message = result.message()
    assert message.stop_reason == "toolUse"
    assert message.tool_calls == [
        ToolCall(id="a", name="read", arguments={"path": "f"}),
        ToolCall(id="b", name="bash", arguments={"x": 1}),
    ]
    assert result.faults == {}


def test_calls_without_numbers_are_told_apart_by_their_ids() -> None:
    result, _ = completion(call(None, '{"a":', "x", "f"), call(None, "1}"), call(None, "{}", "y", "g"))
    assert [(c.id, c.arguments) for c in result.message().tool_calls] == [("x", {"a": 1}), ("y", {})]


def test_calls_that_all_have_one_number_are_told_apart_by_id_and_name() -> None:
    result, _ = completion(call(0, '{"a":', "x", "f"), call(0, "1}"), call(0, '{"b":', "y", "g"), call(0, "2}"))
    assert result.message().tool_calls == [
        ToolCall(id="x", name="f", arguments={"a": 1}),
        ToolCall(id="y", name="g", arguments={"b": 2}),
    ]


def test_a_call_whose_pieces_each_bring_another_id_stays_one() -> None:
    result, _ = completion(call(0, '{"a":', "x", "f"), call(0, "1", "y"), call(0, "}", "z"), call(1, "{}", "w", "g"))
    assert [(c.id, c.name, c.arguments) for c in result.message().tool_calls] == [
        ("x", "f", {"a": 1}),
        ("w", "g", {}),
    ]


@pytest.mark.parametrize(
    "data",
    [
        '{"choices": null}',
        '{"choices": [{"delta": null, "finish_reason": null}]}',
        '{"choices": [{"delta": {"tool_calls": null}}]}',
        '{"choices": [], "usage": {"prompt_tokens": null, "completion_tokens": null}}',
    ],
)
def test_fields_that_are_null_say_nothing(data: str) -> None:
    result, told = completion({"content": "x"})
    result.feed(data)
    assert told == ["x"]
    assert result.usage == Usage()
    assert result.message().content == [TextContent(text="x")]


def test_a_piece_of_a_call_without_its_function_adds_nothing() -> None:
    result, _ = completion(
        {"tool_calls": [{"index": 0, "id": "a", "function": None}]}, call(0, '{"a": 1}', name="f"), finish="tool_calls"
    )
    assert result.message().tool_calls == [ToolCall(id="a", name="f", arguments={"a": 1})]


def test_missing_and_doubled_ids_are_replaced() -> None:
    result, _ = completion(call(0, "{}", "same", "f"), call(1, "{}", "same", "f"), call(2, "{}", None, "f"))
    ids = [c.id for c in result.message().tool_calls]
    assert ids[0] == "same"
    assert len(set(ids)) == 3
    assert all(ids)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": ', "[]", "3", '"x"', "[" * 100_000,
        '{"a": NaN}', '{"a": -Infinity}', '{"a": [1e999]}', '{"a": ' + "[" * 600 + "]" * 600 + "}",
    ],
)  # fmt: skip
def test_arguments_that_are_no_object_are_a_fault_of_that_call_alone(arguments: str) -> None:
    result, _ = completion(call(0, arguments, "bad", "f"), call(1, "{}", "good", "f"))
    message = result.message()
    assert [c.arguments for c in message.tool_calls] == [{}, {}]
    assert list(result.faults) == ["bad"]


def test_half_a_surrogate_pair_is_a_fault() -> None:
    result, _ = completion(call(0, '{"command": "echo \\ud800"}', "a", "bash"))
    assert result.message().tool_calls == [ToolCall(id="a", name="bash")]
    assert result.faults == {"a": "The arguments hold half a surrogate pair, which no text may."}


def test_no_arguments_at_all_are_an_empty_object() -> None:
    result, _ = completion(call(0, "", "a", "f"))
    assert result.message().tool_calls == [ToolCall(id="a", name="f")]
    assert result.faults == {}


def test_half_a_call_never_runs() -> None:
    result, _ = completion({"content": "x"}, call(0, "{}", "a", "f"), finish=None)
    assert not result.finished
    assert result.message("aborted").content == [TextContent(text="x")]


def test_usage_and_price_come_from_the_last_chunk() -> None:
    result, _ = completion({"content": "x"})
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 60},
        "cost_usd": 0.25,
    }
    result.feed(json.dumps({"choices": [], "usage": usage}))
    assert result.usage == Usage(input=40, output=7, cache_read=60, total_tokens=107, cost=Cost(total=0.25))


def test_an_error_event_is_raised_with_its_body() -> None:
    result, _ = completion(finish=None)
    with pytest.raises(StreamedError) as caught:
        result.feed('{"error": {"message": "m", "code": "stream_cut"}}')
    assert caught.value.body == {"message": "m", "code": "stream_cut"}


@pytest.mark.parametrize("data", ["", "nonsense", "[]", '{"choices": 3}', '{"choices": [{"delta": {"content": 5}}]}'])
def test_what_is_no_chunk_ends_the_call(data: str) -> None:
    result, _ = completion(finish=None)
    with pytest.raises(ModelUnreachable, match="no chunk"):
        result.feed(data)


def test_a_flood_of_calls_ends_the_call_and_is_not_asked_for_again() -> None:
    result, _ = completion(*[call(n, "{}", f"c{n}", "f") for n in range(MAX_TOOL_CALLS)])
    with pytest.raises(ModelRequestRefused, match="128 tool calls") as caught:
        result.feed(json.dumps({"choices": [{"delta": call(MAX_TOOL_CALLS, "{}", "z", "f")}]}))
    assert not caught.value.transient
