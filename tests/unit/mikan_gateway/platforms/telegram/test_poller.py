"""The offset moves only once everything before it is durable, and nothing ends the loop but being told to."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from telegram import Bot, Update, User
from telegram.error import Conflict, InvalidToken, NetworkError, RetryAfter

from agent_peers.clock import VirtualClock, settle
from gateway_edges import FixedSettings
from mikan_gateway.exceptions import StorageUnavailable
from mikan_gateway.platforms.telegram.albums import LONGEST
from mikan_gateway.platforms.telegram.errors import OTHER_POLLER, UNAUTHORIZED, WEBHOOK
from mikan_gateway.platforms.telegram.files import Downloads, TelegramFiles
from mikan_gateway.platforms.telegram.poller import AGAIN, BATCH, POLL_SECONDS, Poller
from mikan_gateway.platforms.telegram.updates import UpdateReader
from mikan_gateway.ports import InboundMessage
from servers.telegram.server import BOT

ME = User.de_json(BOT, None)


class PlayedBot:
    """Gives what a test puts there: batches, or errors; then it holds the poll for ever."""

    def __init__(self) -> None:
        self.polls: list[tuple[int | None, int]] = []
        self.next: asyncio.Queue[list[Any] | Exception] = asyncio.Queue()
        self.holding: asyncio.Event | None = None
        """Holds every poll until it is set."""

    async def get_me(self) -> User:
        assert ME is not None
        return ME

    async def set_my_commands(self, commands: object, scope: object) -> bool:
        return True

    async def do_api_request(self, endpoint: str, api_kwargs: dict[str, Any], read_timeout: float) -> Any:
        assert endpoint == "get_Updates"
        limit, held, offset = api_kwargs["limit"], api_kwargs["timeout"], api_kwargs.get("offset")
        assert limit in {BATCH, 1}
        assert read_timeout > held
        self.polls.append((offset, held))
        if self.holding:
            await self.holding.wait()
        if limit == 1 or (held == 0 and self.next.empty()):
            return []
        found = await self.next.get()
        if isinstance(found, Exception):
            raise found
        return [one.to_dict() if isinstance(one, Update) else one for one in found]


class PlayedIntake:
    """Takes messages when a test lets it."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.taken: list[str] = []
        self.failures: dict[str, list[Exception]] = {}
        self.slow: set[str] = set()
        """Messages that take until `news`."""
        self.news = asyncio.Event()
        self.refused: list[tuple[str, str]] = []
        self.files: list[int] = []
        """How many each message had."""

    async def receive(self, message: InboundMessage) -> int | None:
        await self.gate.wait()
        text = message.event.message.text
        while text in self.slow:
            self.news.clear()
            await self.news.wait()
        if self.failures.get(text):
            raise self.failures[text].pop(0)
        self.taken.append(text)
        source = message.attachments
        self.files.append(len(source._files) if isinstance(source, TelegramFiles) else 0)
        return len(self.taken)

    async def refuse(self, message: InboundMessage, reason: str) -> None:
        self.refused.append((message.event.message.text, reason))


def update(number: int, text: str, chat: int = 42, **fields: object) -> Update:
    sender = {"id": chat, "is_bot": False, "first_name": "Ann"}
    where = {"id": chat, "type": "private", "first_name": "Ann"}
    message = {"message_id": number, "date": 1_700_000_000, "chat": where, "from": sender, "text": text, **fields}
    return Update.de_json({"update_id": 100 + number, "message": message}, None)


def picture(number: int, caption: str = "", album: str = "A", chat: int = 42) -> Update:
    photo = [{"file_id": f"F{number}", "file_unique_id": "u", "width": 1, "height": 1}]
    return update(number, "", chat, photo=photo, caption=caption, media_group_id=album)


class World:
    """A poller and all that is around it."""

    def __init__(self) -> None:
        self.clock, self.bot, self.intake = VirtualClock(), PlayedBot(), PlayedIntake()
        bot: Any = self.bot
        reader = Bot("1:x")
        self.moved: list[tuple[int, int]] = []
        self.move_failures: list[Exception] = []
        self.poller = Poller(
            bot, lambda me: UpdateReader(Downloads(reader), me, FixedSettings()), self.intake, self._move, self.clock
        )

    async def _move(self, old: int, new: int) -> None:
        if self.move_failures:
            raise self.move_failures.pop(0)
        self.moved.append((old, new))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    world.poller.start()
    await settle()
    yield world
    await world.poller.stop()


async def test_the_offset_stays_until_the_whole_batch_is_durable(world: World) -> None:
    world.intake.gate.clear()
    world.bot.next.put_nowait([update(1, "one"), update(2, "two", chat=43)])
    await settle()
    assert world.bot.polls == [(None, POLL_SECONDS)]

    world.intake.gate.set()
    await settle()

    assert world.intake.taken == ["one", "two"]
    assert world.bot.polls == [(None, POLL_SECONDS), (103, POLL_SECONDS)]


async def test_a_chat_that_takes_long_keeps_the_others_waiting_for_a_moment_only(world: World) -> None:
    world.intake.slow = {"large file"}
    batch = [update(1, "large file"), update(2, "behind it"), update(3, "other", chat=43)]
    world.bot.next.put_nowait(batch)
    await settle()
    for number in (4, 5):
        batch.append(update(number, f"later {number}", chat=43))
        world.bot.next.put_nowait(list(batch))
        await world.clock.advance(AGAIN)
    assert world.intake.taken == ["other", "later 4", "later 5"]
    assert {offset for offset, _ in world.bot.polls} == {None, 101}

    world.intake.slow = set()
    world.intake.news.set()
    await settle()
    await world.clock.advance(AGAIN)

    assert world.intake.taken == ["other", "later 4", "later 5", "large file", "behind it"]
    assert world.bot.polls[-1] == (106, POLL_SECONDS)


async def test_what_gets_done_while_a_poll_is_under_way_is_not_taken_again(world: World) -> None:
    world.intake.slow = {"large file"}
    world.bot.next.put_nowait([update(1, "large file")])
    await settle()
    world.bot.holding = asyncio.Event()
    await world.clock.advance(AGAIN)
    assert world.bot.polls[-1] == (101, 0)

    world.intake.slow = set()
    world.intake.news.set()
    await settle()
    world.bot.next.put_nowait([update(1, "large file"), update(2, "next")])
    world.bot.holding.set()
    await settle()

    assert world.intake.taken == ["large file", "next"]
    assert world.bot.polls[-1] == (103, POLL_SECONDS)


async def test_a_message_that_cannot_be_stored_holds_back_those_of_its_chat_and_the_offset(world: World) -> None:
    world.intake.failures["one"] = [StorageUnavailable("no database"), StorageUnavailable("no database")]
    world.bot.next.put_nowait([update(1, "one"), update(2, "two"), update(3, "other", chat=43)])
    await settle()
    assert world.intake.taken == ["other"]
    assert world.poller.health().reason == "messages are not taken: no database"

    await world.clock.advance(2)

    assert world.intake.taken == ["other", "one", "two"]
    assert world.poller.health().ok
    assert [offset for offset, _ in world.bot.polls] == [None, 101, 101, 104]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Conflict("Conflict: terminated by other getUpdates request"), OTHER_POLLER),
        (Conflict("Conflict: can't use getUpdates method while webhook is active"), WEBHOOK),
        (InvalidToken("The token `1:secret` was rejected by the server."), UNAUTHORIZED),
        (NetworkError("Bad Gateway"), "Telegram can't be reached: Bad Gateway"),
        (RetryAfter(20), "Telegram asked to wait 20 s (429)"),
    ],
)
async def test_whatever_goes_wrong_is_reported_and_tried_again_for_ever(
    world: World, error: Exception, reason: str
) -> None:
    for _ in range(20):
        world.bot.next.put_nowait(error)
    await settle()
    assert world.poller.health().reason == reason

    await world.clock.advance(1_000)
    world.bot.next.put_nowait([update(1, "at last")])
    await settle()

    assert world.intake.taken == ["at last"]
    assert world.poller.health().ok


async def test_flood_control_of_polls_is_waited_out(world: World) -> None:
    world.bot.next.put_nowait(RetryAfter(20))
    await settle()

    await world.clock.advance(19)
    assert len(world.bot.polls) == 1
    await world.clock.advance(1)

    assert [held for _, held in world.bot.polls] == [POLL_SECONDS, 0, POLL_SECONDS]


async def test_after_a_fault_one_poll_is_short_so_that_its_end_shows_at_once(world: World) -> None:
    world.bot.next.put_nowait(NetworkError("Bad Gateway"))
    await settle()
    await world.clock.advance(1)

    assert [held for _, held in world.bot.polls] == [POLL_SECONDS, 0, POLL_SECONDS]


async def test_an_update_that_cannot_be_read_is_named_and_those_beside_it_are_taken(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    broken = {"update_id": 102, "message": {"chat": {"secret": "what somebody wrote"}}}
    world.bot.next.put_nowait([update(1, "one"), broken, update(3, "three")])
    await settle()

    assert world.intake.taken == ["one", "three"]
    assert world.bot.polls[-1] == (104, POLL_SECONDS)
    assert "an update can't be read" in caplog.text
    assert "what somebody wrote" not in caplog.text


async def test_a_fault_of_the_library_does_not_end_the_loop(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.bot.next.put_nowait(KeyError("an update that can't be parsed"))
    await settle()
    assert "fault of this program" in world.poller.health().reason

    await world.clock.advance(1)
    world.bot.next.put_nowait([update(1, "one")])
    await settle()

    assert world.intake.taken == ["one"]
    assert "begins anew" in caplog.text


async def test_an_album_is_one_message_and_is_not_confirmed_before_it_is_durable(world: World) -> None:
    world.bot.next.put_nowait([update(1, "before"), picture(2, "which?"), update(3, "other", chat=43)])
    await settle()
    assert world.intake.taken == ["before", "other"]

    world.bot.next.put_nowait([picture(2, "which?"), update(3, "other", chat=43), picture(4), update(5, "after")])
    await world.clock.advance(AGAIN)
    assert world.intake.taken == ["before", "other"]

    world.bot.next.put_nowait([picture(2, "which?"), update(3, "other", chat=43), picture(4), update(5, "after")])
    await world.clock.advance(AGAIN)

    assert world.intake.taken == ["before", "other", "which?", "after"]
    assert world.intake.files == [0, 0, 2, 0]
    assert [offset for offset, _ in world.bot.polls] == [None, 102, 102, 106]
    assert [held for _, held in world.bot.polls] == [POLL_SECONDS, 0, 0, POLL_SECONDS]


async def test_a_whole_album_waits_for_nothing(world: World) -> None:
    world.bot.next.put_nowait([picture(number) for number in range(1, 11)])
    await settle()

    assert world.intake.files == [10]


async def test_albums_that_cross_each_other_in_one_chat_stay_apart_and_in_order(world: World) -> None:
    crossing = [picture(1, "one", "A"), picture(2, "two", "B"), picture(3, "", "A"), picture(4, "", "B")]
    world.bot.next.put_nowait(crossing)
    await settle()
    world.bot.next.put_nowait(crossing)
    await world.clock.advance(AGAIN)

    assert (world.intake.taken, world.intake.files) == (["one", "two"], [2, 2])


async def test_an_album_whose_pictures_trickle_in_is_waited_for_so_long_and_no_longer(world: World) -> None:
    pictures = [picture(1, "first")]
    world.bot.next.put_nowait(list(pictures))
    await settle()
    while not world.intake.taken:
        pictures.append(picture(len(pictures) + 1))
        world.bot.next.put_nowait(list(pictures))
        await world.clock.advance(AGAIN)

    assert LONGEST <= world.clock.monotonic() < LONGEST + 2 * AGAIN
    assert world.intake.files[0] in {8, 9}


async def test_what_was_held_when_a_process_ended_was_not_confirmed(world: World) -> None:
    world.bot.next.put_nowait([update(1, "before"), picture(2)])
    await settle()

    await world.poller.stop()

    assert world.intake.taken == ["before"]
    assert world.bot.polls[-1] == (102, 0)


async def test_a_move_is_remembered_before_any_message_from_there(world: World) -> None:
    world.move_failures.append(StorageUnavailable("no database"))
    moved = update(1, "", migrate_from_chat_id=-7)
    world.bot.next.put_nowait([moved, update(2, "hello")])
    await settle()
    assert world.intake.taken == []
    assert world.poller.health().reason == "messages are not taken: no database"

    await world.clock.advance(0.5)

    assert world.moved == [(-7, 42)]
    assert world.intake.taken == ["hello"]
    assert world.poller.health().ok


async def test_an_update_with_a_smaller_number_than_those_before_it_is_read(world: World) -> None:
    """After a quiet week Telegram's numbers begin anew anywhere (Bot API "Update")."""
    world.bot.next.put_nowait([update(500, "one")])
    await settle()
    world.bot.next.put_nowait([update(1, "two")])
    await settle()

    assert world.intake.taken == ["one", "two"]


async def test_stopping_lets_a_batch_end_and_confirms_it(world: World) -> None:
    world.intake.gate.clear()
    world.bot.next.put_nowait([update(1, "one")])
    await settle()

    stopped = asyncio.create_task(world.poller.stop())
    await settle()
    world.intake.gate.set()
    await stopped

    assert world.intake.taken == ["one"]
    assert world.bot.polls[-1] == (102, 0)
    assert len(world.bot.polls) == 2
