"""Telegram's errors in the gateway's terms. No message holds the token, whatever the library wrote into it."""

import os

from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    EndPointNotFound,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)

from mikan_gateway.exceptions import PlatformError, PlatformRefused, PlatformUnavailable

# The library gives times as timedelta only where this says so, and warns otherwise.
os.environ.setdefault("PTB_TIMEDELTA", "true")

UNAUTHORIZED = (
    "Telegram does not know this bot's token (401): put the one that @BotFather gave into the Secret's key 'token' "
    "and restart the gateway"
)
OTHER_POLLER = "another process reads this bot's updates (409): stop it, or give this installation a bot of its own"
WEBHOOK = "a webhook is set for this bot (409): remove it with the Bot API's deleteWebhook"


def seconds_to_wait(error: RetryAfter) -> float:
    """What flood control asked for."""
    wait = error.retry_after
    return float(wait) if isinstance(wait, int | float) else wait.total_seconds()


def reason(error: TelegramError) -> str:
    """One line that says what is wrong, and where an admin must act, how."""
    match error:
        case InvalidToken() | EndPointNotFound():
            return UNAUTHORIZED
        case Conflict():
            return WEBHOOK if "webhook" in error.message.lower() else OTHER_POLLER
        case RetryAfter():
            return f"Telegram asked to wait {seconds_to_wait(error):g} s (429)"
        case BadRequest() | Forbidden() | ChatMigrated():
            return f"Telegram refused: {error.message}"
        case NetworkError():
            return f"Telegram can't be reached: {_cause(error)}"
    return f"Telegram answered what could not be understood: {type(error).__name__}"


def translated(error: TelegramError) -> PlatformError:
    """The error of a call about one chat."""
    match error:
        case RetryAfter():
            return PlatformUnavailable(reason(error), seconds_to_wait(error))
        case BadRequest() | Forbidden() | ChatMigrated():
            return PlatformRefused(reason(error))
    return PlatformUnavailable(reason(error))


def is_parse_error(error: BadRequest) -> bool:
    """Whether the HTML was not accepted."""
    return "parse entities" in error.message.lower()


def _cause(error: NetworkError) -> str:
    cause = error.__cause__
    # A cause's own words may quote the address, which holds the token.
    return type(cause).__name__ if cause is not None else error.message[:100]
