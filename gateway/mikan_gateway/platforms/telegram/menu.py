"""The commands that Telegram's clients offer, from the manifest."""

from collections.abc import Iterable

from telegram import Bot, BotCommand, BotCommandScopeAllGroupChats, BotCommandScopeAllPrivateChats

from mikan_api.commands import COMMAND_MANIFEST, Command, Place

STOP = BotCommand("stop", "Stop what is running")


def menu(place: Place) -> list[BotCommand]:
    """What is offered in direct or in shared chats. What only admins may do is not offered to everybody."""
    offered = (c for c in COMMAND_MANIFEST if c.place in {Place.ANYWHERE, place} and not c.admin_only)
    return [*_native(offered), STOP]


async def register(bot: Bot) -> None:
    """Have them offered.

    Raises:
        TelegramError: they are not.
    """
    await bot.set_my_commands(menu(Place.DIRECT), scope=BotCommandScopeAllPrivateChats())
    await bot.set_my_commands(menu(Place.SHARED), scope=BotCommandScopeAllGroupChats())


def _native(commands: Iterable[Command]) -> list[BotCommand]:
    # Telegram's names hold no "-"; `entities.spelled` turns them back.
    return [BotCommand(c.name.replace("-", "_"), f"{c.summary} {c.arguments}".strip()) for c in commands]
