"""Makes messages of Telegram's updates (behaviour "Session keys", "Intake").

Read are messages in private chats and groups, of whatever kind (`contents`), by people, by anonymous admins and by
channels that write there; those of other bots are only noted. So is an edit: it is no new message, but the office
should know what stands there now. Posts in channels and service messages are not read.
"""

import re
from collections.abc import Callable, Sequence

from telegram import Message, Update, User

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
from mikan_gateway.platforms.telegram.contents import described
from mikan_gateway.platforms.telegram.context import in_context
from mikan_gateway.platforms.telegram.entities import ReadText, read_text
from mikan_gateway.platforms.telegram.files import Downloads, sent_files
from mikan_gateway.platforms.telegram.places import message_ref, replied_id, thread_id
from mikan_gateway.platforms.telegram.rich_text import MAX_UNITS
from mikan_gateway.ports import InboundMessage, SettingsSource

ALLOWED_UPDATES = ("message", "edited_message")
"""What Telegram is asked for."""
_GROUPS = {"group", "supergroup"}
_PLAIN = re.compile(r"[^\w.-]+")


class UpdateReader:
    """Reads for one bot."""

    def __init__(
        self,
        downloads: Downloads,
        me: User,
        settings: SettingsSource,
        conversation: Callable[[int], str] = str,
        noticed: Callable[[Author], None] = lambda _: None,
    ) -> None:
        """Prepare.

        Args:
            downloads: fetches files.
            me: the bot.
            settings: whom an admin listed.
            conversation: the conversation that a chat belongs to.
            noticed: told of everybody who writes and can be mentioned.
        """
        self._downloads, self._me, self._settings = downloads, me, settings
        self._conversation, self._noticed = conversation, noticed

    def read(self, updates: Sequence[Update]) -> InboundMessage | None:
        """The message of an update, or of the updates of one album; ``None`` where there is none for us.

        Raises:
            InvalidValue: ids that no office or session can have.
        """
        messages = [found for update in updates if (found := update.message or update.edited_message) is not None]
        if not messages or messages[0].chat.type not in {messages[0].chat.PRIVATE, *_GROUPS}:
            return None
        message, edited = messages[0], updates[0].edited_message is not None
        author = author_of(message)
        files = sent_files(messages)
        read = self._text(messages)
        if author is None or (edited and message.location) or not (read.text or files):
            return None
        if message.sender_chat is None:
            self._noticed(author)
        conversation = self._conversation(message.chat.id)
        private = message.chat.type == message.chat.PRIVATE
        to_bot = self._is_reply_to_bot(message)
        native = ConversationMessage(
            id=message_ref(message.chat.id, message.message_id, conversation),
            thread_id=thread_id(message, conversation),
            author=author,
            text=in_context(message, read.text, self._me),
            time=message.date,
        )
        event = ConversationEvent(
            platform=Platform.TELEGRAM,
            conversation_id=conversation,
            conversation_kind=ConversationKind.DIRECT if private else ConversationKind.SHARED,
            session_key=session_key(message, conversation),
            message=_edited(native, updates[0]) if edited else native,
        )
        return InboundMessage(
            event,
            self._info(message, conversation, author),
            triggered=private or read.addressed or to_bot,
            app=str(self._me.id),
            # A reply to one of our messages means the run that answers, whose session has another name.
            top_level=private or to_bot or replied_id(message) is None,
            attachments=None if edited else self._downloads.of(files),
            only_noted=edited,
            place_ids=(str(message.chat.id),),
        )

    def _text(self, messages: Sequence[Message]) -> ReadText:
        """The text of a message, or the captions of an album."""
        texts, addressed = [], False
        for message in messages:
            entities = message.entities or message.caption_entities
            read = read_text(message.text or message.caption or "", entities, self._me)
            texts += [read.text, described(message)]
            addressed = addressed or read.addressed
        return ReadText("\n\n".join(filter(None, texts)), addressed)

    def _is_reply_to_bot(self, message: Message) -> bool:
        replied = message.reply_to_message
        if replied is None or replied_id(message) is None or replied.from_user is None:
            return False
        return replied.from_user.id == self._me.id

    def _info(self, message: Message, conversation: str, author: Author) -> MessagingInfo:
        return MessagingInfo(
            platform=Platform.TELEGRAM,
            trust_model=trust_of(message, conversation, self._settings.current),
            bot_name=self._me.username or "mikan",
            display_name=message.chat.title or author.display_name,
            max_text_length=MAX_UNITS,
            can_stream=True,
            can_upload=True,
            users=(author,),
        )


def author_of(message: Message) -> Author | None:
    """Who wrote: a person, or the group or channel that somebody wrote as, whose own name Telegram keeps to itself.

    Not everybody has a user name; a person's id then serves in mentions.
    """
    chat, user = message.sender_chat, message.from_user
    if chat is not None:
        title = chat.title or str(chat.id)
        shown = f"{title} ({message.author_signature})" if message.author_signature else title
        return Author(id=str(chat.id), user_name=chat.username or _PLAIN.sub("_", title)[:64], display_name=shown)
    if user is None:
        return None
    name = user.username or str(user.id)
    return Author(id=str(user.id), user_name=name, display_name=user.full_name, is_bot=user.is_bot)


def session_key(message: Message, conversation: str) -> SessionKey:
    """Private: the chat. Group: the message, or the one that it replies to."""
    own = message_ref(message.chat.id, message.message_id, conversation)
    if message.chat.type == message.chat.PRIVATE:
        return derive_session_key(conversation, own, override=conversation)
    replied = replied_id(message)
    thread = None if replied is None else message_ref(message.chat.id, replied, conversation)
    return derive_session_key(conversation, own, thread)


def trust_of(message: Message, conversation: str, settings: Settings) -> TrustModel:
    """Membership where an admin listed the place; a private chat is listed with its person.

    Elsewhere whoever finds the bot can write, so what they write comes from the open.
    """
    admission = settings.admission.get(Platform.TELEGRAM, Admission())
    listed = set(admission.conversations)
    if message.chat.type == message.chat.PRIVATE:
        listed |= {*admission.users, *settings.admins.get(Platform.TELEGRAM, ())}
    return TrustModel.MEMBERSHIP if listed & {conversation, str(message.chat.id)} else TrustModel.OPEN_TRIGGER


def _edited(native: ConversationMessage, update: Update) -> ConversationMessage:
    """An edit as an entry of its own; each edit of a message is another one."""
    edited = update.edited_message
    at = edited.edit_date if edited is not None and edited.edit_date is not None else native.time
    said = f"[Edited message {native.id}] {native.text}"
    return native.model_copy(update={"id": f"{native.id}-edited-{update.update_id}", "text": said, "time": at})
