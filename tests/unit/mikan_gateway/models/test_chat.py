"""What of a request may pass."""

import json
from typing import Any

import pytest

from mikan_gateway.models.chat import ChatRequest, estimate_prompt_tokens, parse_request, plain_messages
from mikan_gateway.models.exceptions import CallRefused

PNG = "data:image/png;base64,iVBORw0KGgo="


def parse(**fields: Any) -> ChatRequest:
    body = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]} | fields
    return parse_request(json.dumps(body).encode())


def test_known_fields_pass_and_all_others_are_dropped() -> None:
    request = parse(
        temperature=0.5,
        tools=[],
        max_tokens=None,
        api_base="http://evil",
        api_key="k",
        custom_llm_provider="x",
        mock_response="y",
        stream_options={"include_usage": False},
        extra_headers={"a": "b"},
    )

    assert request.options == {"temperature": 0.5, "tools": []}


def test_a_model_name_keeps_further_slashes() -> None:
    request = parse(model="router/anthropic/claude")

    assert (request.provider, request.model) == ("router", "anthropic/claude")


@pytest.mark.parametrize("model", [None, 1, "", "m", "/m", "up/", "up/a b", "up/a\n", "up/" + "x" * 300])
def test_a_malformed_model_is_refused(model: object) -> None:
    with pytest.raises(CallRefused, match="model: a string of the form provider/model"):
        parse(model=model)


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        (None, "messages: a list of at least one message"),
        ([], "messages: a list of at least one message"),
        (["hi"], "messages[0].role: one of assistant, developer, system, tool, user"),
        ([{"role": "root"}], "messages[0].role: one of assistant, developer, system, tool, user"),
        ([{"role": "user", "content": 1}], "messages[0].content: a string, null or a list of parts"),
        ([{"role": "user", "content": [{"type": "file"}]}], "messages[0].content[0]: a part of type text or image_url"),
        ([{"role": "assistant", "tool_calls": "x"}], "messages[0].tool_calls: a list of objects"),
    ],
)
def test_malformed_messages_are_named(messages: object, fault: str) -> None:
    with pytest.raises(CallRefused) as caught:
        parse(messages=messages)

    assert (caught.value.status, caught.value.message) == (400, fault)


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest", "file:///etc/passwd", "data:text/html,x", ""])
def test_an_image_that_somebody_would_have_to_fetch_is_refused(url: str) -> None:
    content = [{"type": "image_url", "image_url": {"url": url}}]

    with pytest.raises(CallRefused, match="only data: URLs of images"):
        parse(messages=[{"role": "user", "content": content}])


def test_message_keys_outside_the_list_are_dropped() -> None:
    parts = [
        {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}, "x": 1},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low", "format": "x"}},
    ]
    message = {"role": "user", "content": parts, "provider_specific_fields": {}, "reasoning_content": "hm"}

    (kept,) = parse(messages=[message]).messages

    assert kept == {
        "role": "user",
        "content": [
            {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        ],
        "reasoning_content": "hm",
    }
    assert plain_messages([kept]) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
            ],
        }
    ]


@pytest.mark.parametrize(("sent", "understood"), [(None, "off"), ("none", "off"), ("off", "off"), ("max", "max")])
def test_thinking_is_off_unless_asked_for(sent: str | None, understood: str) -> None:
    assert parse(reasoning_effort=sent).thinking == understood


def test_an_unknown_thinking_level_is_refused() -> None:
    with pytest.raises(CallRefused, match="reasoning_effort: one of high"):
        parse(reasoning_effort="most")


def test_more_than_one_answer_is_refused() -> None:
    with pytest.raises(CallRefused, match="n: one answer at a time"):
        parse(n=2)


def test_an_image_counts_as_a_thousand_tokens_whatever_its_size() -> None:
    content = [{"type": "text", "text": "x" * 40}, {"type": "image_url", "image_url": {"url": PNG + "A" * 9000}}]

    assert estimate_prompt_tokens(parse(messages=[{"role": "user", "content": content}])) == 1010
