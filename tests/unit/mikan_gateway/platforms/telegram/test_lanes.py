"""One call after another in a chat, no sooner than Telegram allows, and drafts that never wait."""

import asyncio
import contextlib
import random

import pytest
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, NetworkError, RetryAfter, TelegramError

from agent_peers.clock import VirtualClock, settle
from mikan_gateway.exceptions import PlatformError, PlatformRefused, PlatformUnavailable
from mikan_gateway.platforms.telegram.errors import translated
from mikan_gateway.platforms.telegram.lanes import (
    GROUP_DRAFT_SECONDS,
    GROUP_PER_MINUTE,
    GROUP_SPARE,
    OVERALL_PER_SECOND,
    OVERALL_SPARE,
    TOGETHER,
    Lanes,
)


class Telegram:
    """Notes calls; fails as a test says."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.calls: list[tuple[float, int, str]] = []
        self.failures: list[TelegramError] = []

    def call(self, what: str):  # type: ignore[no-untyped-def]
        async def made(chat: int) -> str:
            self.calls.append((self.clock.monotonic(), chat, what))
            if self.failures:
                raise self.failures.pop(0)
            return what

        return made


class Clock(VirtualClock):
    """Virtual time that does not stop for no wait at all."""

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            await super().sleep(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def telegram(clock: Clock) -> Telegram:
    return Telegram(clock)


@pytest.fixture
def lanes(clock: Clock) -> Lanes:
    return Lanes(clock)


async def test_flood_control_is_waited_out_and_what_follows_waits_behind(
    lanes: Lanes, telegram: Telegram, clock: Clock
) -> None:
    telegram.failures.append(RetryAfter(7))
    first = asyncio.create_task(lanes.send(1, telegram.call("first")))
    await settle()
    second = asyncio.create_task(lanes.send(1, telegram.call("second")))
    other = asyncio.create_task(lanes.send(2, telegram.call("other chat")))
    await settle()
    assert other.done()
    assert not first.done()

    await clock.advance(8)

    assert [await first, await second] == ["first", "second"]
    assert telegram.calls == [(0, 1, "first"), (0, 2, "other chat"), (7, 1, "first"), (8, 1, "second")]


async def test_a_draft_is_refused_while_its_chat_is_closed_and_says_for_how_long(
    lanes: Lanes, telegram: Telegram, clock: Clock
) -> None:
    telegram.failures.append(RetryAfter(7))
    with pytest.raises(PlatformUnavailable) as refused:
        await lanes.send_draft(1, telegram.call("draft"))
    assert refused.value.retry_after == 7
    await clock.advance(3)

    with pytest.raises(PlatformUnavailable) as again:
        await lanes.send_draft(1, telegram.call("draft"))

    assert again.value.retry_after == 4
    assert len(telegram.calls) == 1
    await clock.advance(4)
    assert await lanes.send_draft(1, telegram.call("draft")) == "draft"


@pytest.mark.parametrize(("chat", "distance"), [(1, 1.0), (-1, GROUP_DRAFT_SECONDS)])
async def test_drafts_keep_their_distance_and_say_it(
    lanes: Lanes, telegram: Telegram, clock: Clock, chat: int, distance: float
) -> None:
    await lanes.send_draft(chat, telegram.call("a"))

    with pytest.raises(PlatformUnavailable) as refused:
        await lanes.send_draft(chat, telegram.call("b"))

    assert refused.value.retry_after == distance
    await clock.advance(distance)
    await lanes.send_draft(chat, telegram.call("c"))
    assert [what for _, _, what in telegram.calls] == ["a", "c"]


async def test_a_final_text_waits_for_its_second_and_a_draft_behind_it_is_left_out(
    lanes: Lanes, telegram: Telegram, clock: Clock
) -> None:
    await lanes.send_draft(1, telegram.call("draft"))
    final = asyncio.create_task(lanes.send(1, telegram.call("final")))
    await clock.advance(0.5)
    with pytest.raises(PlatformUnavailable):
        await lanes.send_draft(1, telegram.call("late draft"))

    await clock.advance(0.5)

    assert await final == "final"
    assert telegram.calls == [(0, 1, "draft"), (1, 1, "final")]


async def test_what_is_taken_away_need_not_wait(lanes: Lanes, telegram: Telegram) -> None:
    await lanes.send(1, telegram.call("message"))
    await lanes.send(1, telegram.call("deletion"), message=False)

    assert telegram.calls == [(0, 1, "message"), (0, 1, "deletion")]


async def test_in_a_group_drafts_leave_half_of_its_minute_to_answers(
    lanes: Lanes, telegram: Telegram, clock: Clock
) -> None:
    drafts = 0
    for _ in range(60):
        with contextlib.suppress(PlatformUnavailable):
            await lanes.send_draft(-1, telegram.call("draft"))
            drafts += 1
        await clock.advance(1)
    assert drafts == GROUP_PER_MINUTE - GROUP_SPARE

    answers = [asyncio.create_task(lanes.send(-1, telegram.call("answer"))) for _ in range(GROUP_SPARE)]
    await clock.advance(GROUP_SPARE)
    assert all(answer.done() for answer in answers)


async def test_a_crowd_is_answered_within_all_limits_however_long_calls_take(lanes: Lanes, clock: Clock) -> None:
    arrivals: list[tuple[float, int]] = []
    chance = random.Random(7)

    async def call(chat: int) -> None:
        await clock.sleep(chance.uniform(0.0, 0.5))
        arrivals.append((clock.monotonic(), chat))
        await clock.sleep(chance.uniform(0.0, 0.5))

    people, groups = range(1, 151), range(-5, 0)
    sent = [asyncio.create_task(lanes.send(chat, call)) for _ in range(2) for chat in people]
    sent += [asyncio.create_task(lanes.send(chat, call)) for _ in range(25) for chat in groups]
    for _ in range(100):
        await clock.advance(1)

    assert all(task.done() for task in sent)
    assert most(arrivals, 1.0) == OVERALL_PER_SECOND
    assert max(most([a for a in arrivals if a[1] == chat], 1.0) for chat in {*people, *groups}) == 1
    assert max(most([a for a in arrivals if a[1] == chat], 60.0) for chat in groups) == GROUP_PER_MINUTE


async def test_drafts_and_signs_leave_room_for_messages_of_others(
    lanes: Lanes, telegram: Telegram, clock: Clock
) -> None:
    for chat in range(1, 1 + OVERALL_PER_SECOND - OVERALL_SPARE):
        await lanes.send_draft(chat, telegram.call("draft"))

    for send in (lanes.send_draft, lanes.send_sign):
        with pytest.raises(PlatformUnavailable) as refused:
            await send(99, telegram.call("more"))
        assert refused.value.retry_after == 1
    for chat in range(101, 101 + OVERALL_SPARE):
        await lanes.send(chat, telegram.call("answer"))

    assert clock.monotonic() == 0


async def test_several_chats_refused_at_once_close_all_for_as_long_as_the_shortest(
    lanes: Lanes, telegram: Telegram, clock: Clock
) -> None:
    telegram.failures = [RetryAfter(5), RetryAfter(7), RetryAfter(6)]
    refused = [asyncio.create_task(lanes.send(chat, telegram.call("refused"))) for chat in (1, 2, 3)]
    await settle()
    other = asyncio.create_task(lanes.send(4, telegram.call("other chat")))
    await clock.advance(4.9)
    assert len(telegram.calls) == 3

    await clock.advance(3)

    assert all(task.done() for task in [*refused, other])
    assert [(at, chat) for at, chat, _ in telegram.calls[3:]] == [(5, 1), (5, 4), (6, 3), (7, 2)]


async def test_chats_refused_one_after_another_close_only_themselves(
    lanes: Lanes, telegram: Telegram, clock: Clock
) -> None:
    for chat in (1, 2, 3):
        telegram.failures = [RetryAfter(300)]
        refused = asyncio.create_task(lanes.send(chat, telegram.call("refused")))
        await clock.advance(TOGETHER)
        assert not refused.done()
        refused.cancel()

    assert await lanes.send(4, telegram.call("other chat")) == "other chat"


async def test_at_the_end_what_is_under_way_may_arrive_and_nothing_new_begins(lanes: Lanes) -> None:
    arrived = asyncio.Event()

    async def call(chat: int) -> str:
        await arrived.wait()
        return "sent"

    under_way = asyncio.create_task(lanes.send(1, call))
    await settle()
    closing = asyncio.create_task(lanes.close(5))
    await settle()
    with pytest.raises(PlatformUnavailable):
        await lanes.send(2, call)
    assert not closing.done()

    arrived.set()
    await closing

    assert await under_way == "sent"


async def test_at_the_end_nothing_is_waited_for_without_end(lanes: Lanes) -> None:
    async def call(chat: int) -> None:
        await asyncio.Event().wait()

    under_way = asyncio.create_task(lanes.send(1, call))
    await settle()

    await lanes.close(0.01)

    assert not under_way.done()
    under_way.cancel()


async def test_who_gives_up_waiting_leaves_the_turn_to_the_next(lanes: Lanes, telegram: Telegram, clock: Clock) -> None:
    await lanes.send(1, telegram.call("first"))
    gone = asyncio.create_task(lanes.send(1, telegram.call("gone")))
    later = asyncio.create_task(lanes.send(1, telegram.call("later")))
    await settle()
    gone.cancel()

    await clock.advance(1)

    assert await later == "later"
    assert [what for _, _, what in telegram.calls] == ["first", "later"]


def most(arrivals: list[tuple[float, int]], seconds: float) -> int:
    """How many arrived at most in any so many seconds."""
    times = sorted(at for at, _ in arrivals)
    return max(sum(1 for other in times if at <= other < at + seconds - 1e-6) for at in times)


async def test_a_sign_is_left_out_where_the_chat_is_closed(lanes: Lanes, telegram: Telegram) -> None:
    telegram.failures.append(RetryAfter(7))
    with pytest.raises(PlatformUnavailable):
        await lanes.send_sign(1, telegram.call("sign"))

    with pytest.raises(PlatformUnavailable):
        await lanes.send_sign(1, telegram.call("sign"))

    assert len(telegram.calls) == 1


async def test_a_chat_that_moved_is_followed(lanes: Lanes, telegram: Telegram, clock: Clock) -> None:
    telegram.failures.append(ChatMigrated(-100))

    await lanes.send(-1, telegram.call("a"))
    await clock.advance(1)
    await lanes.send(-1, telegram.call("b"))

    assert [chat for _, chat, _ in telegram.calls] == [-1, -100, -100]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadRequest("Bad Request: chat not found"), PlatformRefused),
        (Forbidden("Forbidden: bot was blocked by the user"), PlatformRefused),
        (NetworkError("httpx.ConnectError: refused"), PlatformUnavailable),
        (InvalidToken("The token `1:secret` was rejected"), PlatformUnavailable),
    ],
)
async def test_errors_are_the_gateways_own_and_hold_no_token(
    lanes: Lanes, telegram: Telegram, error: TelegramError, kind: type[PlatformError]
) -> None:
    telegram.failures.append(error)

    with pytest.raises(kind) as raised:
        await lanes.send(1, telegram.call("a"))

    assert "secret" not in str(raised.value)
    assert type(translated(error)) is kind


async def test_many_chats_are_remembered_and_not_all_for_ever(
    lanes: Lanes, telegram: Telegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mikan_gateway.platforms.telegram.lanes.MAX_LANES", 3)

    for chat in range(10):
        await lanes.send(chat, telegram.call("a"))

    assert len(lanes._lanes) == 3
