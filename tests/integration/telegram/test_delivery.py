"""Never lost: other pollers, flood control, backlog, crashes and a bad network. The verdict is what people see."""

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from mikan_api.kill_points import VARIABLE
from mikan_gateway.exceptions import ClusterError, OfficeConflict
from mikan_gateway.platforms.telegram.errors import OTHER_POLLER, UNAUTHORIZED, WEBHOOK
from mikan_gateway.platforms.telegram.lanes import OVERALL_PER_SECOND
from mikan_gateway.ports import InboundMessage, Intake
from mikan_gateway.runtime.clock import SystemClock
from servers.telegram.server import TelegramServer
from telegram_agent import Turn
from telegram_world import Start, TelegramGateway, config_of

SUPPORT = Path(__file__).parents[2] / "support"


async def settled_health(gateway: TelegramGateway, ok: bool) -> str:
    """Wait until the platform reports as expected; why not."""
    async with asyncio.timeout(15):
        while gateway.platform.health().ok is not ok:  # noqa: ASYNC110  health has nobody to tell
            await asyncio.sleep(0.01)
    return gateway.platform.health().reason


async def until_confirmed(telegram: TelegramServer) -> None:
    """Wait until the bot has confirmed every update."""
    async with asyncio.timeout(15):
        while telegram.world.updates:  # noqa: ASYNC110  the server has nobody to tell
            await asyncio.sleep(0.01)


async def test_a_backlog_is_answered_in_order_and_nothing_is_dropped(telegram: TelegramServer, start: Start) -> None:
    ann, bob = telegram.private(42), telegram.private(43, "Bob", "bob")
    for number in range(25):
        ann.send(f"question {number}")
        bob.send(f"other {number}")

    await start()

    await ann.until(lambda chat: "You said: question 24" in chat.texts, patience=60)
    await bob.until(lambda chat: "You said: other 24" in chat.texts, patience=60)
    assert ann.texts == [f"You said: question {number}" for number in range(25)]
    assert bob.texts == [f"You said: other {number}" for number in range(25)]
    assert telegram.world.updates == []


@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_process_killed_around_the_durable_write_loses_and_doubles_nothing(
    telegram: TelegramServer, tmp_path: Path, place: str
) -> None:
    ann = telegram.private(42)
    for number in range(6):
        ann.send(f"question {number}")
    config = config_of(telegram)
    argv = [config.base_url, config.base_file_url, config.token, str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": str(SUPPORT), VARIABLE: f"gateway.message.commit.{place}:4"}
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "telegram_process", *argv, env=environ)
    assert await process.wait() == -9
    # The offset never moved past what was not durable yet.
    undurable = [f"question {number}" for number in range(3 if place == "before" else 4, 6)]
    assert [update["message"]["text"] for update in telegram.world.updates][-len(undurable) :] == undurable

    gateway = TelegramGateway(config, tmp_path)
    gateway.know("42")
    async with gateway:
        await ann.until(lambda chat: chat.texts and chat.texts[-1] == "You said: question 5")
        await until_confirmed(telegram)

        log = await gateway.logged("42")
        assert [text for text in log if not text.startswith("You said")] == [f"question {n}" for n in range(6)]
    answers = list(dict.fromkeys(ann.texts))
    assert [text for text in answers if text.startswith("You said")] == [f"You said: question {n}" for n in range(6)]


async def test_another_poller_is_reported_and_outlasted(telegram: TelegramServer, start: Start) -> None:
    gateway = await start()
    await settled_health(gateway, ok=True)

    async def poll_again_and_again() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            while True:
                await client.get(f"{telegram.base_url}{telegram.token}/getUpdates?timeout=5")

    other = asyncio.create_task(poll_again_and_again())
    assert await settled_health(gateway, ok=False) == OTHER_POLLER
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)

    ann = telegram.private(42)
    ann.send("hello")
    await ann.answered("You said: hello")
    assert gateway.platform.health().ok


async def test_a_webhook_is_reported_with_what_to_do(telegram: TelegramServer, start: Start) -> None:
    telegram.world.webhook = "https://example.org/hook"
    gateway = await start()
    async with asyncio.timeout(10):
        while gateway.platform.health().reason != WEBHOOK:  # noqa: ASYNC110  health has nobody to tell
            await asyncio.sleep(0.01)

    telegram.world.webhook = ""

    assert await settled_health(gateway, ok=True) == ""


async def test_a_wrong_token_is_reported_and_neither_ends_the_process_nor_shows(
    telegram: TelegramServer, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "8000000001:" + "a-token-that-nobody-at-telegram-knows"
    config = replace(config_of(telegram), token=wrong)
    gateway = await start(config=config)

    async with asyncio.timeout(10):
        while gateway.platform.health().reason != UNAUTHORIZED:  # noqa: ASYNC110  health has nobody to tell
            await asyncio.sleep(0.01)

    assert "Telegram is not read" in caplog.text
    assert wrong not in caplog.text


async def test_flood_control_is_waited_out_and_the_final_text_arrives(telegram: TelegramServer, start: Start) -> None:
    async def play(turn: Turn) -> str:
        await turn.stream("soon")
        await ann.until(lambda chat: "soon" in chat.texts)
        telegram.flood.refuse_next(42, 2)
        return "here it is"

    await start(play=play, clock=SystemClock())
    ann = telegram.private(42)

    ann.send("hello")

    await ann.answered("here it is")
    assert ann.texts == ["here it is"]
    assert telegram.flood.refused == 1
    assert telegram.flood.early == 0


async def test_a_crowd_gets_all_answers_in_order_and_flood_control_has_nothing_to_say(
    telegram: TelegramServer, start: Start
) -> None:
    async def play(turn: Turn) -> str:
        answer = f"You said: {turn.text}"
        for end in range(4, len(answer), 4):
            await turn.stream(answer[:end])
            await asyncio.sleep(0.15)
        return answer

    telegram.flood.as_documented()
    await start(play=play, clock=SystemClock())
    people = [telegram.private(number, f"P{number}", f"p{number}") for number in range(100, 130)]
    groups = [telegram.people.group(number, telegram.people.person(42)) for number in range(1, 4)]

    for number in range(2):
        for chat in people:
            chat.send(f"question {number}")
        for chat in groups:
            chat.send(f"@mikan_bot question {number}")

    for chat in [*people, *groups]:
        await chat.until(lambda chat: "You said: question 1" in chat.texts and len(chat.texts) == 2, patience=100)
    assert all(chat.texts == ["You said: question 0", "You said: question 1"] for chat in people)
    assert all(sorted(chat.texts) == ["You said: question 0", "You said: question 1"] for chat in groups)
    assert telegram.flood.refused == 0


async def test_one_chat_that_is_closed_keeps_nobody_else_waiting(telegram: TelegramServer, start: Start) -> None:
    """Not even with what the gateway itself answers: the next poll comes all the same."""
    telegram.flood.refuse_next(42, 600)
    await start(clock=SystemClock())
    ann, bob = telegram.private(42), telegram.private(43, "Bob", "bob")

    for text in ("/login", "stop", "/model", "hello"):
        ann.send(text)
    async with asyncio.timeout(10):
        while not telegram.flood.refused:  # noqa: ASYNC110  refusals have nobody to tell
            await asyncio.sleep(0.01)
    bob.send("hello")

    await bob.answered("You said: hello")
    await until_confirmed(telegram)
    assert ann.texts == []
    assert telegram.flood.early == 0


async def test_a_file_that_takes_long_keeps_nobody_else_waiting(telegram: TelegramServer, start: Start) -> None:
    await start(clock=SystemClock())
    ann, bob = telegram.private(42), telegram.private(43, "Bob", "bob")
    arrived = asyncio.Event()
    telegram.faults.add("file", until=arrived)
    ann.send_file("film.mkv", b"...", caption="watch")
    async with asyncio.timeout(10):
        while not telegram.called("file"):  # noqa: ASYNC110  calls have nobody to tell
            await asyncio.sleep(0.01)

    bob.send("hello")
    await bob.answered("You said: hello")

    assert ann.texts == []
    arrived.set()
    await ann.answered("You said: watch")


async def test_an_update_that_cannot_be_read_keeps_none_behind_it_from_being_read(
    telegram: TelegramServer, start: Start
) -> None:
    ann = telegram.private(42)
    telegram.world.tell("message", {"message_id": 1, "chat": "nowhere", "date": "never"})
    ann.send("hello")

    await start()

    await ann.answered("You said: hello")
    await until_confirmed(telegram)


async def test_what_is_closed_for_the_whole_bot_is_left_alone(telegram: TelegramServer, start: Start) -> None:
    await start(clock=SystemClock())
    people = [telegram.private(number, f"P{number}", f"p{number}") for number in range(100, 140)]
    people[0].send("hello")
    await people[0].answered("You said: hello")
    telegram.flood.close_all(3)

    for chat in people[1:]:
        chat.send("hello")

    for chat in people[1:]:
        await chat.until(lambda chat: chat.texts == ["You said: hello"], patience=60)
    # Those that were on their way when it began, and no other: else it were two for each of them.
    assert telegram.flood.refused <= OVERALL_PER_SECOND
    assert telegram.flood.early == 0


async def test_answers_of_our_own_keep_their_order(telegram: TelegramServer, start: Start) -> None:
    telegram.faults.add("sendMessage", "error", times=2)
    await start()
    ann = telegram.private(42)

    for text in ("/model x", "stop", "/login"):
        ann.send(text)

    await ann.until(lambda chat: len(chat.texts) == 3)
    assert [text.split()[0] for text in ann.texts] == ["That", "Nothing", "/login"]


async def test_a_stream_in_a_flooded_chat_is_coalesced(telegram: TelegramServer, start: Start) -> None:
    words = [f"word{number} " for number in range(60)]

    async def play(turn: Turn) -> str:
        offset = 0
        for word in words:
            await turn.stream(word, offset)
            offset += len(word)
            await asyncio.sleep(0.02)
        return "".join(words)

    telegram.flood.per_chat_second = 1
    await start(play=play, clock=SystemClock())
    ann = telegram.private(42)

    ann.send("talk")

    await ann.answered("".join(words).strip())
    assert len(ann.answers) == 1
    assert 2 <= len(ann.answers[0].history) <= 4
    assert telegram.flood.refused == 0


@pytest.mark.parametrize("kind", ["error", "garbage", "cut"])
async def test_an_answer_is_sent_again_until_it_arrives(telegram: TelegramServer, start: Start, kind: str) -> None:
    telegram.faults.add("sendMessage", kind, times=2)
    await start()
    ann = telegram.private(42)

    ann.send("hello")

    await ann.answered("You said: hello")
    assert ann.texts == ["You said: hello"]


async def test_an_edit_whose_answer_was_lost_changes_nothing_the_second_time(
    telegram: TelegramServer, start: Start
) -> None:
    async def play(turn: Turn) -> str:
        await turn.stream("soon")
        await ann.until(lambda chat: "soon" in chat.texts)
        telegram.faults.add("editMessageText", "drop")
        return "here it is"

    await start(play=play)
    ann = telegram.private(42)

    ann.send("hello")

    await ann.answered("here it is")
    async with asyncio.timeout(10):
        while len(telegram.called("editMessageText")) < 2:  # noqa: ASYNC110  calls have nobody to tell
            await asyncio.sleep(0.01)
    assert [m.history for m in ann.answers] == [["soon", "here it is"]]


async def test_the_window_that_telegram_leaves_is_one_first_send(telegram: TelegramServer, start: Start) -> None:
    """A first send has no key: if its answer is lost it may stand twice, and is never lost (docs/telegram.md)."""
    telegram.faults.add("sendMessage", "drop")
    await start()
    ann = telegram.private(42)

    ann.send("hello")
    await ann.until(lambda chat: len(chat.texts) == 2)
    ann.send("again")

    await ann.answered("You said: again")
    assert ann.texts == ["You said: hello", "You said: hello", "You said: again"]


@pytest.mark.parametrize("kind", ["error", "garbage", "cut", "drop"])
async def test_a_poll_that_fails_is_reported_and_loses_nothing(
    telegram: TelegramServer, start: Start, kind: str
) -> None:
    ann = telegram.private(42)
    ann.send("hello")
    telegram.faults.add("getUpdates", kind, times=2)

    gateway = await start()

    await ann.answered("You said: hello")
    assert ann.texts == ["You said: hello"]
    await settled_health(gateway, ok=True)


async def test_telegram_away_at_the_start_is_waited_for(telegram: TelegramServer, start: Start) -> None:
    telegram.faults.add("getMe", "cut", times=2)
    ann = telegram.private(42)
    ann.send("hello")

    await start()

    await ann.answered("You said: hello")


class Refusing:
    """An intake that fails a few times first."""

    def __init__(self, intake: Intake, failures: list[Exception]) -> None:
        self._intake, self._failures = intake, failures

    async def receive(self, message: InboundMessage) -> int | None:
        if self._failures:
            raise self._failures.pop(0)
        return await self._intake.receive(message)

    async def refuse(self, message: InboundMessage, reason: str) -> None:
        await self._intake.refuse(message, reason)


async def test_what_cannot_be_stored_now_is_taken_later_in_order_and_reported_meanwhile(
    telegram: TelegramServer, start: Start
) -> None:
    failures: list[Exception] = [ClusterError("no API server"), ClusterError("no API server")]
    ann = telegram.private(42)
    ann.send("one")
    ann.send("two")

    gateway = await start(around=lambda intake: Refusing(intake, failures))

    assert await settled_health(gateway, ok=False)
    await ann.answered("You said: two")
    assert ann.texts == ["You said: one", "You said: two"]
    await settled_health(gateway, ok=True)


async def test_who_cannot_be_served_is_told_why_and_the_next_is_read(telegram: TelegramServer, start: Start) -> None:
    failures: list[Exception] = [OfficeConflict("this office's name is taken")]
    ann = telegram.private(42)
    ann.send("one")
    ann.send("two")

    await start(around=lambda intake: Refusing(intake, failures))

    await ann.until(lambda chat: len(chat.texts) == 2)
    assert sorted(ann.texts) == ["You said: two", "this office's name is taken"]


async def test_a_fault_of_ours_on_one_message_does_not_keep_the_next_from_being_read(
    telegram: TelegramServer, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    broken = ["one"]
    ann = telegram.private(42)
    ann.send("one")
    ann.send("two")

    class Broken:
        def __init__(self, intake: Intake) -> None:
            self._intake = intake

        async def receive(self, message: InboundMessage) -> int | None:
            if message.event.message.text in broken:
                raise RuntimeError("a fault of ours")
            return await self._intake.receive(message)

        async def refuse(self, message: InboundMessage, reason: str) -> None:
            await self._intake.refuse(message, reason)

    await start(around=Broken)

    await ann.answered("You said: two")
    assert "taking a message failed" in caplog.text


async def test_a_stopped_gateway_has_confirmed_what_it_took(telegram: TelegramServer, start: Start) -> None:
    gateway = await start()
    ann = telegram.private(42)
    ann.send("hello")
    await ann.answered("You said: hello")

    await gateway.platform.stop_intake()

    assert telegram.world.updates == []
    ann.send("while away")
    await gateway.restart()
    await ann.answered("You said: while away")
    assert ann.texts == ["You said: hello", "You said: while away"]


async def test_a_run_cut_off_by_a_restart_ends_with_one_notice(telegram: TelegramServer, start: Start) -> None:
    begun = asyncio.Event()

    async def play(turn: Turn) -> str:
        if turn.text == "hello":
            return "hello"
        await turn.stream("half an ans")
        begun.set()
        await asyncio.Event().wait()
        return ""

    gateway = await start(play=play)
    ann = telegram.private(42)
    ann.send("long one")
    await begun.wait()
    await ann.until(lambda chat: "half an ans" in chat.texts)

    await gateway.restart()

    await ann.until(lambda chat: any("interrupted" in text for text in chat.texts))
    ann.send("hello")
    await ann.answered("hello")
    assert sum("interrupted" in text for text in ann.texts) == 1
