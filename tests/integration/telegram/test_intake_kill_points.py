"""Killed as it stores what is no run: its own answers, a move, an album. What people on Telegram see is the verdict."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from mikan_api.kill_points import VARIABLE, Step
from servers.telegram.server import TelegramServer
from telegram_world import TelegramGateway, config_of

SUPPORT = Path(__file__).parents[2] / "support"
NO_PORTAL = " is not available: this installation has no portal to open."


async def killed(telegram: TelegramServer, root: Path, point: str) -> None:
    """Run a gateway until it kills itself there."""
    config = config_of(telegram)
    argv = [config.base_url, config.base_file_url, config.token, str(root)]
    environ = {**os.environ, "PYTHONPATH": str(SUPPORT), VARIABLE: point}
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "telegram_process", *argv, env=environ)
    assert await asyncio.wait_for(process.wait(), 40) == -9


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("text", ["/login", "stop"])
async def test_an_answer_of_our_own_is_given_once(
    telegram: TelegramServer, tmp_path: Path, side: str, text: str
) -> None:
    ann = telegram.private(42)
    ann.send(text)
    await killed(telegram, tmp_path, f"{Step.REPLY_COMMIT}.{side}")

    gateway = TelegramGateway(config_of(telegram), tmp_path)
    gateway.know("42")
    async with gateway:
        ann.send("last")
        await ann.until(lambda chat: len(chat.texts) == 2)

    assert sum(said in {"Nothing is running here.", "/login" + NO_PORTAL} for said in ann.texts) == 1


@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_group_keeps_its_office_though_the_process_dies_as_it_hears_of_the_move(
    telegram: TelegramServer, tmp_path: Path, side: str
) -> None:
    group = telegram.people.basic_group(7, telegram.people.person(42))
    async with TelegramGateway(config_of(telegram), tmp_path) as gateway:
        group.send("@mikan_bot before")
        async with asyncio.timeout(20):
            while "You said: before" not in await gateway.logged("-7"):  # noqa: ASYNC110  the log has nobody to tell
                await asyncio.sleep(0.05)
    later = group.upgrade(2)
    later.send("@mikan_bot after")
    await killed(telegram, tmp_path, f"{Step.MOVE_COMMIT}.{side}")

    gateway = TelegramGateway(config_of(telegram), tmp_path)
    gateway.know("-7")
    async with gateway:
        await later.answered("You said: after")

    assert [view.address.conversation_id for view in gateway.offices.views.values()] == ["-7"]
    assert later.texts == ["You said: after"]


@pytest.mark.parametrize("side", ["before", "after"])
async def test_an_album_is_one_message_though_the_process_dies_as_it_stores_it(
    telegram: TelegramServer, tmp_path: Path, side: str
) -> None:
    ann = telegram.private(42)
    ann.album((b"one", "which?"), (b"two", ""))
    await killed(telegram, tmp_path, f"{Step.MESSAGE_COMMIT}.{side}")

    gateway = TelegramGateway(config_of(telegram), tmp_path)
    gateway.know("42")
    async with gateway:
        ann.send("last")
        await ann.answered("You said: last")

    assert ann.texts == ["You said: which?", "You said: last"]
