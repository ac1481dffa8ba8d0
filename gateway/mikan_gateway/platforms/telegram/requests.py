"""Every request to Telegram: how long it may take, and the places before and after it at which tests kill."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from telegram.request import HTTPXRequest

from mikan_api.kill_points import Step, around

CONNECT_SECONDS, READ_SECONDS, UPLOAD_SECONDS = 10.0, 30.0, 120.0
METHODS: Mapping[str, Step] = {
    "getMe": Step.TELEGRAM_GET_ME,
    "setMyCommands": Step.TELEGRAM_SET_MY_COMMANDS,
    "getUpdates": Step.TELEGRAM_GET_UPDATES,
    "getFile": Step.TELEGRAM_GET_FILE,
    "sendChatAction": Step.TELEGRAM_SEND_CHAT_ACTION,
    "sendMessage": Step.TELEGRAM_SEND_MESSAGE,
    "editMessageText": Step.TELEGRAM_EDIT_MESSAGE_TEXT,
    "deleteMessage": Step.TELEGRAM_DELETE_MESSAGE,
    "sendPhoto": Step.TELEGRAM_SEND_PHOTO,
    "sendDocument": Step.TELEGRAM_SEND_DOCUMENT,
}
"""The methods of the Bot API that are called."""


class TelegramRequest(HTTPXRequest):
    """A pool of connections."""

    def __init__(self, pool: int, read: float = READ_SECONDS) -> None:
        """``read``: seconds without a byte after which a connection counts as dead."""
        super().__init__(
            connection_pool_size=pool,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=read,
            write_timeout=READ_SECONDS,
            media_write_timeout=UPLOAD_SECONDS,
            pool_timeout=READ_SECONDS,
        )

    async def do_request(self, url: str, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """As the library's."""
        step = Step.TELEGRAM_DOWNLOAD if "/file/" in url else METHODS.get(url.rpartition("/")[2])
        with around(step) if step else nullcontext():
            return await super().do_request(url, *args, **kwargs)
