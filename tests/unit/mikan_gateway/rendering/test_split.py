import pytest
from hypothesis import given
from hypothesis import strategies as st

from mikan_gateway.rendering.split import split_text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("  \n", []),
        ("short", ["short"]),
        ("aaaa bbbb cccc", ["aaaa bbbb", "cccc"]),
        ("aaaa\nbb cc dd ee", ["aaaa\nbb cc", "dd ee"]),
        ("aaaaaaaaaaaaaaa", ["aaaaaaaaaa", "aaaaa"]),
    ],
)
def test_a_text_is_cut_at_the_best_place(text: str, parts: list[str]) -> None:
    assert split_text(text, 10) == parts


@given(st.text(alphabet="ab \n", max_size=200), st.integers(min_value=2, max_value=20))
def test_no_part_is_too_long_and_nothing_but_white_space_is_lost(text: str, limit: int) -> None:
    parts = split_text(text, limit)

    assert all(0 < len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())
