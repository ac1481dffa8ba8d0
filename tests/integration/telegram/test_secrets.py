"""The bot's token is in every address that is asked, and must be in nothing that is written."""

import logging

import pytest

from mikan_api.logs import JsonFormatter
from servers.telegram.server import TelegramServer
from telegram_world import Start


async def test_the_token_is_in_no_log_line_whatever_fails(
    telegram: TelegramServer, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    telegram.faults.add("getUpdates", "cut", times=2)
    telegram.faults.add("sendMessage", "cut")
    telegram.faults.add("file", "cut")
    await start()
    ann = telegram.private(42)

    ann.send_file("notes.txt", b"remember", caption="hello")

    await ann.answered("You said: hello")
    written = [JsonFormatter("gateway").format(record) for record in caplog.records]
    assert any("Telegram is not read" in line for line in written)
    assert not any(telegram.token.partition(":")[2] in line for line in written)
    # What is said at INFO and above never held it in the first place.
    spoken = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    assert not any(telegram.token in line for line in spoken)
