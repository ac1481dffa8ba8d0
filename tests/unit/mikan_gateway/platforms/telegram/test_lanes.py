"""One call after another in a chat, no sooner than Telegram allows, and drafts that never wait."""

import asyncio

import pytest
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, NetworkError, RetryAfter, TelegramError

from agent_peers.clock import VirtualClock, settle
from mikan_gateway.exceptions import PlatformError, PlatformRefused, PlatformUnavailable
from mikan_gateway.platforms.telegram.errors import translated
from mikan_gateway.platforms.telegram.lanes import GROUP_DRAFT_SECONDS, Lanes


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

    await clock.advance(7)

    assert [await first, await second] == ["first", "second"]
    assert telegram.calls == [(0, 1, "first"), (0, 2, "other chat"), (7, 1, "first"), (7, 1, "second")]


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


async def test_drafts_in_groups_keep_their_distance_and_those_in_private_chats_need_not(
    lanes: Lanes, telegram: Telegram, clock: Clock
) -> None:
    await lanes.send_draft(1, telegram.call("a"))
    await lanes.send_draft(1, telegram.call("b"))
    await lanes.send_draft(-1, telegram.call("c"))

    with pytest.raises(PlatformUnavailable):
        await lanes.send_draft(-1, telegram.call("d"))

    await clock.advance(GROUP_DRAFT_SECONDS)
    await lanes.send_draft(-1, telegram.call("e"))
    await lanes.send(-1, telegram.call("final"))
    assert [what for _, _, what in telegram.calls] == ["a", "b", "c", "e", "final"]


async def test_a_sign_is_left_out_where_the_chat_is_closed(lanes: Lanes, telegram: Telegram) -> None:
    telegram.failures.append(RetryAfter(7))
    with pytest.raises(PlatformUnavailable):
        await lanes.send_sign(1, telegram.call("sign"))

    with pytest.raises(PlatformUnavailable):
        await lanes.send_sign(1, telegram.call("sign"))

    assert len(telegram.calls) == 1


async def test_a_chat_that_moved_is_followed(lanes: Lanes, telegram: Telegram) -> None:
    telegram.failures.append(ChatMigrated(-100))

    await lanes.send(-1, telegram.call("a"))
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
