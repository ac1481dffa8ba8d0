"""Asks Telegram for updates, and reads each by itself: one that can't be read must not keep all others from being."""

import logging
from typing import Any

from telegram import Bot, Update

from mikan_gateway.platforms.telegram.updates import ALLOWED_UPDATES

# The library's own method gives up a whole batch for one bad update, again and again, and logs what everybody wrote.
# Spelled like this the call goes the same way and the library does not point there.
_METHOD = "get_Updates"

logger = logging.getLogger(__name__)


async def fetch_updates(bot: Bot, offset: int | None, limit: int, held: int, patience: float) -> list[Update]:
    """The next updates; one that can't be read is empty.

    Args:
        bot: the bot.
        offset: of the first update that is wanted.
        limit: how many.
        held: seconds that Telegram may hold the call.
        patience: seconds beyond that.

    Raises:
        TelegramError: the call failed.
    """
    asked: dict[str, Any] = {"limit": limit, "timeout": held, "allowed_updates": list(ALLOWED_UPDATES)}
    if offset is not None:
        asked["offset"] = offset
    found: Any = await bot.do_api_request(_METHOD, api_kwargs=asked, read_timeout=held + patience)
    return [_read(raw, bot) for raw in found]


def _read(raw: dict[str, Any], bot: Bot) -> Update:
    try:
        return Update.de_json(raw, bot)
    except Exception as error:  # noqa: BLE001  whatever it is, it can't be read better the next time
        # Not the error itself, which quotes what somebody wrote.
        logger.error("an update can't be read", extra={"update": raw["update_id"], "reason": type(error).__name__})
        return Update(raw["update_id"])
