"""Telegram, over python-telegram-bot and a polling loop of our own."""
