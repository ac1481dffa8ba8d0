"""Cutting: every part fits, is balanced, and nothing but white space at a cut is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mikan_gateway.platforms.telegram.parts import MAX_FORMATTED, Part, as_part, split_markdown
from mikan_gateway.platforms.telegram.rich_text import MAX_UNITS, Run, split_runs, to_html, to_plain, units
from servers.telegram.html_entities import parse_html

TAGS = st.sampled_from(["<b>", "<i>", "<s>", "<blockquote>", '<a href="https://example.org/?a&amp;b">'])
RUNS = st.lists(
    st.builds(
        Run,
        st.text(st.one_of(st.sampled_from('ab &<>"\n😀'), st.characters(codec="utf-8")), max_size=200),
        st.lists(TAGS, unique=True, max_size=3).map(tuple),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(RUNS, st.integers(150, 400))
def test_every_part_fits_is_balanced_and_keeps_the_text(runs: list[Run], limit: int) -> None:
    parts = split_runs(runs, limit)

    for part in parts:
        html = to_html(part)
        assert 0 < units(html) <= limit
        assert parse_html(html)[0] == to_plain(part)
    assert "".join("".join(map(to_plain, parts)).split()) == "".join(to_plain(runs).split())


@settings(deadline=None)
@given(st.text(st.sampled_from("ab *`_<&😀\n#>-|"), min_size=1, max_size=400), st.integers(1, 60))
def test_a_long_answer_fits_by_telegrams_count_before_and_after_the_tags_are_read(text: str, times: int) -> None:
    for part in split_markdown(text * times):
        assert units(part.html) <= MAX_UNITS
        assert units(part.plain) <= MAX_UNITS
        assert parse_html(part.html)[0] == part.plain


def test_growth_by_escaping_counts() -> None:
    parts = split_markdown("<&" * 2_000)

    assert [units(part.html) for part in parts] == [4_095, 4_095, 4_095, 4_095, 1_620]
    assert "".join(part.plain for part in parts) == "<&" * 2_000


def test_an_astral_character_counts_twice_and_stays_whole() -> None:
    parts = split_markdown("x" + "😀" * 2_048)

    assert [part.plain for part in parts] == ["x" + "😀" * 2_047, "😀"]


def test_a_cut_prefers_paragraphs_then_lines_then_words() -> None:
    assert _cut("aaaa aaaa\n\nbbbb bbbb\ncccc", 12) == ["aaaa aaaa", "bbbb bbbb", "cccc"]
    assert _cut("aaaa aaaa\nbbbb bbbb", 12) == ["aaaa aaaa", "bbbb bbbb"]
    assert _cut("aaaa bbbb cccc", 10) == ["aaaa bbbb", "cccc"]
    assert _cut("aaaabbbbcccc", 5) == ["aaaab", "bbbcc", "cc"]


def test_what_is_open_at_a_cut_is_closed_and_opened_again() -> None:
    runs = [Run("one two", ("<b>", "<i>"))]

    assert [to_html(part) for part in split_runs(runs, 20)] == ["<b><i>one</i></b>", "<b><i>two</i></b>"]


def test_an_answer_that_fits_is_logged_as_the_model_wrote_it() -> None:
    assert split_markdown("**a** & b") == ["**a** & b"]


def test_unpaired_surrogates_are_replaced() -> None:
    assert [part.html for part in split_markdown("a\ud83d b")] == ["a\ufffd b"]


def test_a_text_too_long_to_be_read_in_time_is_shown_as_it_was_written() -> None:
    text = "_a_ " * (MAX_FORMATTED // 4 + 1)

    parts = split_markdown(text)

    assert " ".join(parts) == text.strip()
    assert all(part.html == part for part in parts)


def test_parts_of_a_long_answer_are_logged_as_people_see_them() -> None:
    text = "**" + "word " * 1_000 + "end**"

    parts = split_markdown(text)

    assert len(parts) == 2
    assert all(part == part.plain and part.html.startswith("<b>") for part in parts)


def test_a_part_stays_what_it_is_and_another_text_becomes_one() -> None:
    part = split_markdown("**a**")[0]

    assert as_part(part) is part
    other = as_part("**b**")
    assert isinstance(other, Part)
    assert other.html == "<b>b</b>"


def _cut(text: str, limit: int) -> list[str]:
    return [to_plain(part) for part in split_runs([Run(text)], limit)]
