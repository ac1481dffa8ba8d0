"""Where a message belongs: ids as the rest of the gateway carries them, and back.

In a forum the thread is the topic, which sending needs; elsewhere it is the message that was replied to. Either form
can be told from the other.

A message's id is unique in its chat only, and a group that becomes a supergroup is another chat whose messages count
from 1 again, in the same conversation (`moves`). There its id names the chat too: ``<message>.<chat>``.
"""

from telegram import Message

from mikan_gateway.exceptions import PlatformRefused

_TOPIC = "topic-"


def message_ref(chat_id: int, message_id: int, conversation: str) -> str:
    """The id of a chat's message in a conversation."""
    return str(message_id) if str(chat_id) == conversation else f"{message_id}.{-chat_id}"


def native_id(ref: str, chat_id: int, conversation: str) -> int | None:
    """The message's own id, if it is in that chat."""
    message_id, _, chat = ref.partition(".")
    return int(message_id) if (str(-int(chat)) if chat else conversation) == str(chat_id) else None


def required_id(ref: str, chat_id: int, conversation: str) -> int:
    """The same.

    Raises:
        PlatformRefused: it is in a group that has become a supergroup since.
    """
    message_id = native_id(ref, chat_id, conversation)
    if message_id is None:
        raise PlatformRefused("this message is in the group that has become a supergroup")
    return message_id


def replied_id(message: Message) -> int | None:
    """The message that this one replies to; in a topic each message seems to reply to the topic's beginning."""
    replied = message.reply_to_message
    if replied is None or replied.forum_topic_created is not None:
        return None
    if message.is_topic_message and replied.message_id == message.message_thread_id:
        return None
    return replied.message_id


def thread_id(message: Message, conversation: str) -> str | None:
    """The thread of a message."""
    if message.is_topic_message and message.message_thread_id is not None:
        return f"{_TOPIC}{message.message_thread_id}"
    replied = replied_id(message)
    if replied is None or message.chat.type == message.chat.PRIVATE:
        return None
    return message_ref(message.chat.id, replied, conversation)


def topic_of(thread: str | None) -> int | None:
    """The topic to send to."""
    if thread is None or not thread.startswith(_TOPIC):
        return None
    return int(thread.removeprefix(_TOPIC))
