"""A Bot API server for tests, as strict as Telegram's (https://core.telegram.org/bots/api), with people in it."""
