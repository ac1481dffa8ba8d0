"""Where a message belongs: thread ids as the rest of the gateway carries them, and back.

In a forum the thread is the topic, which sending needs; elsewhere it is the message that was replied to. Either form
can be told from the other.
"""

from telegram import Message

_TOPIC = "topic-"


def replied_id(message: Message) -> int | None:
    """The message that this one replies to; in a topic each message seems to reply to the topic's beginning."""
    replied = message.reply_to_message
    if replied is None or replied.forum_topic_created is not None:
        return None
    if message.is_topic_message and replied.message_id == message.message_thread_id:
        return None
    return replied.message_id


def thread_id(message: Message) -> str | None:
    """The thread of a message."""
    if message.is_topic_message and message.message_thread_id is not None:
        return f"{_TOPIC}{message.message_thread_id}"
    replied = replied_id(message)
    return None if replied is None or message.chat.type == message.chat.PRIVATE else str(replied)


def topic_of(thread: str | None) -> int | None:
    """The topic to send to."""
    if thread is None or not thread.startswith(_TOPIC):
        return None
    return int(thread.removeprefix(_TOPIC))
