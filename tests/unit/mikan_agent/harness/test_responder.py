from agent_peers.clock import VirtualClock
from mikan_agent.answer_text import AnswerText
from mikan_agent.harness.responder import FIRST, PACE, Responder
from mikan_agent.outbox import Outbox
from mikan_api.responder import Diagnostic, Respond, Working


def responder(outbox: Outbox, clock: VirtualClock) -> tuple[Responder, list[tuple[float, str]]]:
    shown: list[tuple[float, str]] = []

    def show(text: AnswerText) -> None:
        delta = text.next_delta()
        assert delta is not None
        shown.append((clock.monotonic(), delta.text))

    return Responder("r1", outbox, show, clock), shown


async def test_the_first_text_is_shown_after_a_moment_and_the_rest_at_a_steady_pace() -> None:
    clock = VirtualClock()
    r, shown = responder(Outbox(), clock)
    r.stream("a")
    await clock.advance(0)
    for letter in "bcdefgh":
        r.stream(letter)
        await clock.advance(0.01)
    await clock.advance(1)
    r.stream("i")
    await clock.advance(0)
    assert [text for _, text in shown] == ["abcd", "efgh", "i"]
    assert [round(time, 3) for time, _ in shown] == [FIRST, FIRST + PACE, 1.07]
    r.stop_streaming()


async def test_the_answer_ends_the_stream_and_is_bounded() -> None:
    clock, outbox = VirtualClock(), Outbox()
    r, shown = responder(outbox, clock)
    r.stream("a")
    await r.respond("b" * 1_000_001)
    await clock.advance(1)
    assert shown == []
    assert outbox.pending()[0].operation == Respond(text="b" * 1_000_000)


async def test_a_state_is_told_once() -> None:
    outbox = Outbox()
    r, _ = responder(outbox, VirtualClock())
    for label in ("", "starting", "starting", "", ""):
        await r.working(label)
    assert [o.operation for o in outbox.pending()] == [Working(label="starting"), Working()]


async def test_a_diagnostic_is_bounded() -> None:
    outbox = Outbox()
    r, _ = responder(outbox, VirtualClock())
    await r.diagnostic("x" * 20_000, "warning")
    assert outbox.pending()[0].operation == Diagnostic(level="warning", text="x" * 10_000)
