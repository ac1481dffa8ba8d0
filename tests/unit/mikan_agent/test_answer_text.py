from hypothesis import given
from hypothesis import strategies as st

from mikan_agent.answer_text import MAX_SHOWN, AnswerText
from mikan_api.wire import Delta


def test_each_delta_goes_where_the_last_one_ended() -> None:
    text = AnswerText("r1")
    text.append("one ")
    assert text.next_delta() == Delta(run_id="r1", offset=0, text="one ")
    assert text.next_delta() is None
    text.append("two")
    text.append(" three")
    assert text.next_delta() == Delta(run_id="r1", offset=4, text="two three")


def test_segments_are_paragraphs() -> None:
    text = AnswerText("r1")
    text.append("one")
    text.seal()
    text.seal()
    text.append("two")
    assert text.whole == "one\n\ntwo"


def test_a_segment_of_nothing_adds_nothing() -> None:
    text = AnswerText("r1")
    text.append("one")
    text.seal()
    text.append("")
    assert text.whole == "one"


def test_a_repeat_shows_nothing_until_it_goes_beyond_what_was_shown() -> None:
    text = AnswerText("r1")
    text.append("once upon")
    text.next_delta()
    text.discard()
    assert text.next_delta() is None
    text.append("once ")
    assert text.next_delta() is None
    text.append("upon a time")
    assert text.next_delta() == Delta(run_id="r1", offset=9, text=" a time")


def test_a_repeat_that_differs_starts_over() -> None:
    text = AnswerText("r1")
    text.append("once upon")
    text.next_delta()
    text.discard()
    text.append("long ago")
    assert text.next_delta() == Delta(run_id="r1", offset=0, text="long ago")


def test_after_a_cut_all_is_told_again() -> None:
    text = AnswerText("r1")
    text.append("one")
    text.next_delta()
    text.restart()
    assert text.next_delta() == Delta(run_id="r1", offset=0, text="one")


def test_a_word_that_is_not_for_people_is_held_until_it_becomes_something_else() -> None:
    text = AnswerText("r1")
    text.hold("[SILENT]")
    shown = []
    for piece in ("\n[SIL", "ENT]", "\n", "not"):
        text.append(piece)
        shown.append(text.next_delta())
    assert shown == [None, None, None, Delta(run_id="r1", offset=0, text="\n[SILENT]\nnot")]


def test_only_the_beginning_of_an_endless_answer_streams() -> None:
    text = AnswerText("r1")
    text.append("x" * (MAX_SHOWN + 5))
    assert text.next_delta() == Delta(run_id="r1", offset=0, text="x" * MAX_SHOWN)
    text.append("y")
    assert text.next_delta() is None
    assert len(text.whole) == MAX_SHOWN + 6


@given(st.lists(st.one_of(st.text(max_size=5), st.sampled_from(["<seal>", "<discard>", "<show>", "<restart>"]))))
def test_a_reader_of_the_deltas_has_the_whole_text_once_a_repeat_has_caught_up(steps: list[str]) -> None:
    text, reader = AnswerText("r"), ""
    for step in steps:
        match step:
            case "<seal>":
                text.seal()
            case "<discard>":
                text.discard()
            case "<restart>":
                text.restart()
                reader = ""
            case "<show>":
                delta = text.next_delta()
                if delta is not None:
                    assert delta.offset in {0, len(reader)}
                    reader = reader[: delta.offset] + delta.text
                assert reader.startswith(text.whole)
            case _:
                text.append(step)
