"""What a message refers to, put before its text: where it was forwarded from, and what it replies to.

A reply in a group belongs to the session of the message replied to, which an agent knows if the bot wrote it; what
others wrote it may never have seen, and in a private chat nothing else says which of all messages is meant.
"""

from telegram import (
    Message,
    MessageOrigin,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
    User,
)

from mikan_api.commands import is_magic_stop, parse_command
from mikan_gateway.platforms.telegram.contents import described
from mikan_gateway.platforms.telegram.places import replied_id

MAX_EXCERPT = 500
"""Characters of what is replied to; of a part that somebody chose to quote, all."""


def in_context(message: Message, text: str, me: User) -> str:
    """A message's text with what it refers to. A command and the magic word stay as they are."""
    if message.forward_origin is not None and not message.is_automatic_forward:
        # Somebody else's words: no command, whatever they are.
        return f"[Forwarded from {_origin(message.forward_origin)}]\n{text}".rstrip()
    if text.startswith("/") or is_magic_stop(text) or parse_command(text) is not None:
        return text
    quoted = _quoted(message, me)
    return "\n\n".join(filter(None, (quoted, text)))


def _quoted(message: Message, me: User) -> str:
    """What is replied to, with its author; empty if that goes without saying."""
    if message.external_reply is not None:
        who = f"{_origin(message.external_reply.origin)}, in another chat,"
        chosen = message.quote.text if message.quote else ""
        return f"{who} wrote:\n{_lines(chosen)}" if chosen else f"[In reply to a message of {who[:-1]}]"
    replied = message.reply_to_message
    if replied is None or replied_id(message) is None:
        return ""
    ours = replied.from_user is not None and replied.from_user.id == me.id
    if message.quote is not None:
        return f"{_who(replied, ours)} wrote:\n{_lines(message.quote.text)}"
    said = replied.text or replied.caption or described(replied)
    if not said or (ours and message.chat.type != message.chat.PRIVATE):
        return ""
    return f"{_who(replied, ours)} wrote:\n{_lines(said if len(said) <= MAX_EXCERPT else said[:MAX_EXCERPT] + '…')}"


def _who(message: Message, ours: bool) -> str:
    if ours:
        return "You"
    if message.sender_chat is not None:
        return message.sender_chat.title or "Somebody"
    return message.from_user.full_name if message.from_user else "Somebody"


def _lines(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _origin(origin: MessageOrigin) -> str:
    match origin:
        case MessageOriginUser():
            return origin.sender_user.full_name
        case MessageOriginHiddenUser():
            return origin.sender_user_name
        case MessageOriginChat():
            return origin.sender_chat.title or "a group"
        case MessageOriginChannel():
            return origin.chat.title or "a channel"
    return "somebody"
