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
from mikan_gateway.ports import InboundMessage, Intake
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
    for number in range(60):
        ann.send(f"question {number}")
        bob.send(f"other {number}")

    await start()

    await ann.until(lambda chat: len(chat.texts) == 60, patience=60)
    await bob.until(lambda chat: len(chat.texts) == 60, patience=60)
    assert ann.texts == [f"You said: question {number}" for number in range(60)]
    assert bob.texts == [f"You said: other {number}" for number in range(60)]
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
    assert len(telegram.world.updates) == 6

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

    await start(play=play)
    ann = telegram.private(42)

    ann.send("hello")

    await ann.answered("here it is")
    assert ann.texts == ["here it is"]
    assert telegram.flood.refused == 1
    assert telegram.flood.early == 0


async def test_under_telegrams_limits_every_final_text_arrives_in_order_and_no_call_is_early(
    telegram: TelegramServer, start: Start
) -> None:
    telegram.flood.per_chat_second = 1
    await start()
    ann, bob = telegram.private(42), telegram.private(43, "Bob", "bob")

    for number in range(3):
        ann.send(f"question {number}")
        bob.send(f"question {number}")

    expected = [f"You said: question {number}" for number in range(3)]
    await ann.until(lambda chat: chat.texts == expected)
    await bob.until(lambda chat: chat.texts == expected)
    assert telegram.flood.refused > 0
    assert telegram.flood.early == 0


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
    await start(play=play)
    ann = telegram.private(42)

    ann.send("talk")

    await ann.answered("".join(words).strip())
    assert len(ann.answers) == 1
    assert len(ann.answers[0].history) <= 4
    assert telegram.flood.early == 0


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
