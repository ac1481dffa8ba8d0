"""Makes messages of Telegram's updates (behaviour "Session keys", "Intake").

Read are new messages of people in private chats and groups. Edits, channels, other bots and service messages are not.
"""

from collections.abc import Callable

from telegram import Bot, Message, Update, User

from mikan_api.identity import Platform
from mikan_api.messaging import (
    Author,
    ConversationEvent,
    ConversationKind,
    ConversationMessage,
    MessagingInfo,
    TrustModel,
)
from mikan_api.session_keys import SessionKey, derive_session_key
from mikan_api.settings import Admission, Settings
from mikan_gateway.platforms.telegram.entities import read_text
from mikan_gateway.platforms.telegram.files import TelegramFiles, files_of
from mikan_gateway.platforms.telegram.places import replied_id, thread_id
from mikan_gateway.platforms.telegram.rich_text import MAX_UNITS
from mikan_gateway.ports import InboundMessage, SettingsSource

ALLOWED_UPDATES = ("message",)
"""What Telegram is asked for."""
_GROUPS = {"group", "supergroup"}


class UpdateReader:
    """Reads for one bot."""

    def __init__(
        self, bot: Bot, me: User, settings: SettingsSource, noticed: Callable[[Author], None] = lambda _: None
    ) -> None:
        """Prepare; ``noticed`` is told of everybody who writes."""
        self._bot = bot
        self._me = me
        self._settings = settings
        self._noticed = noticed

    def read(self, update: Update) -> InboundMessage | None:
        """The message of an update; ``None`` where there is none for us.

        Raises:
            InvalidValue: ids that no office or session can have.
        """
        message = update.message
        if message is None or message.from_user is None or message.from_user.is_bot:
            return None
        if message.chat.type not in {message.chat.PRIVATE, *_GROUPS}:
            return None
        files = files_of(message)
        text = message.text or message.caption or ""
        if not text and not files:
            return None
        read = read_text(text, message.entities or message.caption_entities, self._me)
        private = message.chat.type == message.chat.PRIVATE
        to_bot = self._is_reply_to_bot(message)
        native = ConversationMessage(
            id=str(message.message_id),
            thread_id=thread_id(message),
            author=author_of(message.from_user),
            text=read.text,
            time=message.date,
        )
        self._noticed(native.author)
        event = ConversationEvent(
            platform=Platform.TELEGRAM,
            conversation_id=str(message.chat.id),
            conversation_kind=ConversationKind.DIRECT if private else ConversationKind.SHARED,
            session_key=session_key(message),
            message=native,
        )
        return InboundMessage(
            event,
            self._info(message, native.author),
            triggered=private or read.addressed or to_bot,
            app=str(self._me.id),
            # A reply to one of our messages means the run that answers, whose session has another name.
            top_level=private or to_bot or replied_id(message) is None,
            attachments=TelegramFiles(self._bot, message, files) if files else None,
        )

    def _is_reply_to_bot(self, message: Message) -> bool:
        replied = message.reply_to_message
        if replied is None or replied_id(message) is None or replied.from_user is None:
            return False
        return replied.from_user.id == self._me.id

    def _info(self, message: Message, author: Author) -> MessagingInfo:
        return MessagingInfo(
            platform=Platform.TELEGRAM,
            trust_model=trust_of(message, self._settings.current),
            bot_name=self._me.username or "mikan",
            display_name=message.chat.title or author.display_name,
            max_text_length=MAX_UNITS,
            can_stream=True,
            can_upload=True,
            users=(author,),
        )


def author_of(user: User) -> Author:
    """A person. Not everybody has a user name; the id then serves in mentions."""
    return Author(id=str(user.id), user_name=user.username or str(user.id), display_name=user.full_name)


def session_key(message: Message) -> SessionKey:
    """Private: the chat. Group: the message, or the one that it replies to."""
    chat = str(message.chat.id)
    if message.chat.type == message.chat.PRIVATE:
        return derive_session_key(chat, str(message.message_id), override=chat)
    replied = replied_id(message)
    return derive_session_key(chat, str(message.message_id), str(replied) if replied is not None else None)


def trust_of(message: Message, settings: Settings) -> TrustModel:
    """Membership where an admin listed the place; a private chat is listed with its person.

    Elsewhere whoever finds the bot can write, so what they write comes from the open.
    """
    admission = settings.admission.get(Platform.TELEGRAM, Admission())
    listed = set(admission.conversations)
    if message.chat.type == message.chat.PRIVATE:
        listed |= {*admission.users, *settings.admins.get(Platform.TELEGRAM, ())}
    return TrustModel.MEMBERSHIP if str(message.chat.id) in listed else TrustModel.OPEN_TRIGGER
