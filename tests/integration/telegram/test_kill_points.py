"""Killed at a named place: what people on Telegram see, and how small the window is that Telegram leaves."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from mikan_api.kill_points import VARIABLE, Step
from mikan_gateway.rendering.renderer import CUT_OFF
from servers.telegram.server import TelegramServer
from telegram_world import TelegramGateway, config_of

SUPPORT = Path(__file__).parents[2] / "support"
STEPS = [
    Step.MESSAGE_COMMIT,
    Step.MESSAGE_ACKNOWLEDGE,
    Step.RUN_SEND,
    Step.REPORT_COMMIT,
    Step.INTENT_COMMIT,
    Step.PLATFORM_POST,
    Step.SENT_COMMIT,
    Step.PLATFORM_EDIT,
    Step.POSTED_COMMIT,
    Step.SHOWN_COMMIT,
]
WINDOW = {f"{Step.PLATFORM_POST}.after", f"{Step.SENT_COMMIT}.before"}
"""Between Telegram's answer to a first send and the commit that keeps it."""


async def killed(telegram: TelegramServer, root: Path, point: str) -> None:
    """Run a gateway until it kills itself there."""
    config = config_of(telegram)
    environ = {**os.environ, "PYTHONPATH": str(SUPPORT), VARIABLE: point}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "telegram_process",
        config.base_url,
        config.base_file_url,
        config.token,
        str(root),
        env=environ,
    )
    assert await asyncio.wait_for(process.wait(), 40) == -9


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_message_is_answered_once_or_its_cut_is_told_once(
    telegram: TelegramServer, tmp_path: Path, step: Step, side: str
) -> None:
    ann = telegram.private(42)
    ann.send("hello")
    dying = asyncio.create_task(killed(telegram, tmp_path, f"{step}.{side}"))
    if step is Step.MESSAGE_ACKNOWLEDGE and side == "after":
        await ann.answered("You said: hello")
        ann.send("hello again")  # the call that confirms returns with the next message
    await dying

    gateway = TelegramGateway(config_of(telegram), tmp_path)
    gateway.know("42")
    async with gateway:
        ann.send("last")
        await ann.answered("You said: last")

    told = [text for text in ann.texts if text in {"You said: hello", CUT_OFF}]
    left = [text for text in ann.texts if text == "You said"]
    assert len(told) == 1
    assert len(left) <= (1 if f"{step}.{side}" in WINDOW else 0)
    assert len(ann.texts) - len(left) - ann.texts.count("You said: hello again") == 2
