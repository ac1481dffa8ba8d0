"""Lines of JSON: what survives, what is refused, and reading from either end."""

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mikan_agent.records.exceptions import NotJson
from mikan_agent.records.lines import Damaged, decode, encode, read_lines, read_lines_backwards


@pytest.mark.parametrize("value", ["\ud800", "a\u2028b\u2029c", "\x00\n\r", "日本語 🍊", '"\\'])
def test_every_string_survives_on_one_line(value: str) -> None:
    line = encode({"text": value})
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line[:-1]) == {"text": value}


def test_text_is_written_as_it_is() -> None:
    assert encode({"text": "日本"}) == '{"text":"日本"}\n'.encode()


def test_a_lone_surrogate_is_escaped_as_javascript_does() -> None:
    assert encode({"text": "a\ud800"}) == b'{"text":"a\\ud800"}\n'


@pytest.mark.parametrize("value", [math.nan, math.inf, b"bytes", {1, 2}])
def test_what_json_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(NotJson):
        encode({"value": value})


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"1", b"null", b'{"a":NaN}', b'{"a":"\xff"}', b"\0" * 20, b"[" * 100_000, b"{} {}"]
)
def test_what_is_no_json_object_is_damage(content: bytes) -> None:
    with pytest.raises(Damaged):
        decode(content)


@given(st.binary(max_size=60).map(lambda b: b.replace(b"a", b"\n")), st.integers(min_value=1, max_value=9))
def test_both_directions_see_the_same_lines(content: bytes, chunk: int) -> None:
    forward = [(line.offset, line.content, line.complete) for line in read_lines(io.BytesIO(content))]
    assert list(read_lines_backwards(io.BytesIO(content), chunk))[::-1] == forward
