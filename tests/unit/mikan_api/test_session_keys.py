"""Session keys: the first colon separates."""

import pytest

from mikan_api.exceptions import InvalidSessionKey
from mikan_api.session_keys import (
    conversation_id_of,
    derive_session_key,
    parse_session_key,
    thread_file_name,
    thread_suffix_of,
)


def test_an_override_of_the_conversation_wins() -> None:
    assert derive_session_key("C1", "1.0", "0.5", "C1") == "C1"
    assert derive_session_key("C1", "1.0", None, "C1:7:8") == "C1:7:8"


def test_without_an_override_the_thread_then_the_message() -> None:
    assert derive_session_key("C1", "1.0", "0.5") == "C1:0.5"
    assert derive_session_key("C1", "1.0") == "C1:1.0"


def test_an_override_of_another_conversation_is_an_error() -> None:
    with pytest.raises(InvalidSessionKey, match="'C2:1' is not of conversation 'C1'"):
        derive_session_key("C1", "1.0", None, "C2:1")


def test_the_parts_of_a_key() -> None:
    key = parse_session_key("C1:a:b")

    assert conversation_id_of(key) == "C1"
    assert thread_suffix_of(key) == "a:b"
    assert thread_suffix_of(parse_session_key("C1")) is None


@pytest.mark.parametrize(
    "value", ["", ":x", "C1:", "C1:.", "C1:..", "C1:a/b", "C1:a\\b", "C1:\n", "a/b:1", "C1:" + "x" * 513]
)
def test_keys_that_are_refused(value: str) -> None:
    with pytest.raises(InvalidSessionKey):
        parse_session_key(value)


@pytest.mark.parametrize(
    ("suffix", "file"),
    [
        ("1700000000.000100", "1700000000.000100.jsonl"),
        ("a:b", "a-b~6783a31eabf68ccc.jsonl"),
        ("current", "current~97b0560280ed60a5.jsonl"),
        (".hidden", "hidden~1692419006a88aab.jsonl"),
    ],
)
def test_file_names_are_safe_and_never_the_name_of_the_top_level(suffix: str, file: str) -> None:
    assert thread_file_name(suffix) == file
