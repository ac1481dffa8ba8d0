"""Reads a message's text with its entities, whose offsets count UTF-16 units: mentions, and commands."""

from collections.abc import Sequence
from dataclasses import dataclass

from telegram import MessageEntity, User

from mikan_api.commands import COMMAND_MANIFEST

_SLASH_FORMS = {form for command in COMMAND_MANIFEST for form in command.slash_forms} | {"/stop"}


_SPACE = " ".encode("utf-16-le")


@dataclass(frozen=True, slots=True)
class ReadText:
    """``text`` with people as ``<@userName>`` and without the bot itself."""

    text: str
    addressed: bool
    """Whether the bot is mentioned, or a command is meant for it."""


def read_text(text: str, entities: Sequence[MessageEntity], bot: User) -> ReadText:
    """Read what somebody wrote."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    out: list[str] = []
    position, addressed = 0, False
    for entity in sorted(entities, key=lambda e: e.offset):
        begin, end = entity.offset * 2, (entity.offset + entity.length) * 2
        if begin < position or entity.type not in {"mention", "text_mention", "bot_command"}:
            continue
        piece = _decode(encoded[begin:end])
        shown, meant = _read(entity, piece, bot)
        before = _decode(encoded[position:begin])
        if not shown and before.endswith(" ") and encoded[end : end + 2] == _SPACE:
            end += len(_SPACE)
        out += [before, shown]
        position, addressed = end, addressed or meant
    out.append(_decode(encoded[position:]))
    return ReadText("".join(out).strip(), addressed)


def _read(entity: MessageEntity, piece: str, bot: User) -> tuple[str, bool]:
    """How an entity is shown to the model, and whether it means the bot."""
    own = f"@{bot.username or ''}".lower()
    if entity.type == "bot_command":
        command, at, name = piece.partition("@")
        if entity.offset != 0 or (at and f"@{name}".lower() != own):
            return piece, False
        command = spelled(command)
        return command, bool(at) or command.lower() in _SLASH_FORMS
    if entity.type == "text_mention" and entity.user is not None:
        return ("", True) if entity.user.id == bot.id else (f"<@{entity.user.id}>", False)
    return ("", True) if piece.lower() == own else (f"<@{piece[1:]}>", False)


def spelled(command: str) -> str:
    """A command as the manifest spells it: Telegram's own spelling has no ``-``."""
    dashed = command.replace("_", "-")
    return dashed if dashed.lower() in _SLASH_FORMS else command


def _decode(encoded: bytes) -> str:
    return encoded.decode("utf-16-le", "replace")
