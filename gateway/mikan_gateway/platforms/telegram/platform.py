"""Telegram as a chat platform.

Telegram knows no idempotency key: a message whose sending broke off in between is sent again and may stand twice
(docs/telegram.md). Everything after a first send is an edit, which may come as often as it likes.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from telegram import Bot, InputFile, LinkPreviewOptions, Message, ReplyParameters
from telegram.constants import ChatAction, ParseMode
from telegram.error import BadRequest

from mikan_api.identity import Platform
from mikan_api.messaging import Author, MessagingInfo, TrustModel
from mikan_gateway.config import TelegramConfig
from mikan_gateway.exceptions import PlatformRefused
from mikan_gateway.platforms.telegram.errors import is_parse_error
from mikan_gateway.platforms.telegram.files import Downloads
from mikan_gateway.platforms.telegram.lanes import Lanes
from mikan_gateway.platforms.telegram.moves import Moves, MoveStore
from mikan_gateway.platforms.telegram.parts import Part, as_part, split_markdown
from mikan_gateway.platforms.telegram.places import message_ref, native_id, required_id, topic_of
from mikan_gateway.platforms.telegram.poller import Poller
from mikan_gateway.platforms.telegram.requests import TelegramRequest
from mikan_gateway.platforms.telegram.rich_text import MAX_UNITS
from mikan_gateway.platforms.telegram.typing_signs import TypingSigns
from mikan_gateway.platforms.telegram.updates import UpdateReader
from mikan_gateway.ports import Health, Intake, SettingsSource, Target
from mikan_gateway.runtime.clock import Clock, SystemClock

T = TypeVar("T")

PACE = 1.0
"""Seconds between two edits: a chat may have about one message a second."""
FINISH_SECONDS = 3.0
"""For calls that are under way when the process ends."""
MAX_PHOTO = 10 * 1024 * 1024
MAX_UPLOAD = 50 * 1024 * 1024
MAX_CAPTION = 1_024
MAX_REMEMBERED = 10_000
UPLOADS_AT_ONCE = 2
"""Files are in memory while they are sent."""
_PHOTOS = {".jpg", ".jpeg", ".png", ".webp"}
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_TOPIC_GONE = ("message thread not found", "topic_deleted", "topic_closed")
_GONE = ("message to delete not found", "message can't be deleted", "message_id_invalid")

logger = logging.getLogger(__name__)


class TelegramPlatform:
    """Implements `ChatPlatform`."""

    def __init__(
        self, config: TelegramConfig, settings: SettingsSource, moves: MoveStore, clock: Clock | None = None
    ) -> None:
        # The library's client logs each address, and with it the token.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._clock = clock or SystemClock()
        self._settings = settings
        self._requests = (TelegramRequest(32), TelegramRequest(2))
        self._bot = Bot(
            config.token,
            base_url=config.base_url,
            base_file_url=config.base_file_url,
            request=self._requests[0],
            get_updates_request=self._requests[1],
        )
        self._moves = Moves(moves)
        self._lanes = Lanes(self._clock, lambda chat_id: self._moves.chat(str(chat_id)), self._moves.noticed)
        self._downloads = Downloads(self._bot)
        self._typing = TypingSigns(self._send_typing, self._clock)
        self._uploads = asyncio.Semaphore(UPLOADS_AT_ONCE)
        self._posted: OrderedDict[str, str] = OrderedDict()
        self._names: OrderedDict[str, str] = OrderedDict()
        self._poller: Poller | None = None

    @property
    def platform(self) -> Platform:
        return Platform.TELEGRAM

    @property
    def pace(self) -> float:
        return PACE

    async def start(self, intake: Intake) -> None:
        """Begin to read, in the background: Telegram may be away for as long as it likes.

        Raises:
            StorageError: it is not known which groups have moved.
        """
        await self._moves.load()
        for request in self._requests:
            await request.initialize()
        self._poller = Poller(
            self._bot,
            lambda me: UpdateReader(self._downloads, me, self._settings, self._moves.conversation, self._notice),
            intake,
            self._moves.note,
            self._clock,
        )
        self._poller.start()

    async def stop_intake(self) -> None:
        if self._poller:
            await self._poller.stop()

    async def stop(self) -> None:
        await self.stop_intake()
        await self._typing.stop()
        await self._lanes.close(FINISH_SECONDS)
        for request in self._requests:
            await request.shutdown()

    def health(self) -> Health:
        return self._poller.health() if self._poller else Health(False, "not started")

    def info(self, trust_model: TrustModel, display_name: str) -> MessagingInfo:
        return MessagingInfo(
            platform=Platform.TELEGRAM,
            trust_model=trust_model,
            display_name=display_name,
            max_text_length=MAX_UNITS,
            can_stream=True,
            can_upload=True,
        )

    async def post(self, target: Target, text: str, nonce: str, draft: bool = False) -> str:
        """Post a message; its id. The same nonce again gives the same id, within one process."""
        known = self._posted.get(nonce)
        if known is not None:
            return known
        part = as_part(text, self._names)

        async def call(chat: int) -> Message:
            return await _placed(
                target,
                chat,
                lambda topic, reply: _with_fallback(
                    part,
                    lambda text, mode: self._bot.send_message(
                        chat,
                        text,
                        parse_mode=mode,
                        message_thread_id=topic,
                        reply_parameters=reply,
                        link_preview_options=_NO_PREVIEW,
                    ),
                ),
            )

        send = self._lanes.send_draft if draft else self._lanes.send
        return self._sent(nonce, target, await send(_chat(target), call))

    async def edit(self, target: Target, message_id: str, text: str, draft: bool = False) -> None:
        part = as_part(text, self._names)

        async def call(chat: int) -> None:
            try:
                await _with_fallback(
                    part,
                    lambda text, mode: self._bot.edit_message_text(
                        text,
                        chat,
                        required_id(message_id, chat, target.conversation_id),
                        parse_mode=mode,
                        link_preview_options=_NO_PREVIEW,
                    ),
                )
            except BadRequest as error:
                if "not modified" not in error.message.lower():
                    raise

        send = self._lanes.send_draft if draft else self._lanes.send
        await send(_chat(target), call)

    async def delete(self, target: Target, message_id: str) -> None:
        async def call(chat: int) -> None:
            native = native_id(message_id, chat, target.conversation_id)
            if native is None:
                return  # in the group that was, where nobody looks any more
            try:
                await self._bot.delete_message(chat, native)
            except BadRequest as error:
                if not any(gone in error.message.lower() for gone in _GONE):
                    raise

        await self._lanes.send(_chat(target), call, message=False)

    async def upload(self, target: Target, file: Path, name: str, title: str, nonce: str) -> str:
        """Send a file: as a photo where it is one, else as a document.

        Raises:
            PlatformRefused: larger than a bot may send.
            PlatformError: it could not be sent.
        """
        known = self._posted.get(nonce)
        if known is not None:
            return known
        async with self._uploads:
            content = await asyncio.to_thread(_content, file)
            caption = next(iter(split_markdown(title, self._names, MAX_CAPTION)), Part("", ()))
            send = partial(self._send_file, target, content, name, caption)
            message = await self._lanes.send(_chat(target), send)
        return self._sent(nonce, target, message)

    async def set_working(self, target: Target, working: bool) -> None:
        if working:
            self._typing.begin(target)
        else:
            self._typing.end(target)

    def split(self, text: str) -> Sequence[str]:
        return split_markdown(text, self._names)

    async def _send_file(self, target: Target, content: bytes, name: str, caption: Part, chat: int) -> Message:
        if Path(name).suffix.lower() in _PHOTOS and len(content) <= MAX_PHOTO:
            try:
                return await self._send_media(self._bot.send_photo, target, content, name, caption, chat)
            except BadRequest as error:
                # Too wide, or no image after all: as a document it can be had still.
                logger.info("not a photo for Telegram", extra={"reason": error.message})
        # Else Telegram may make something else of it by what its bytes look like.
        send = partial(self._bot.send_document, disable_content_type_detection=True)
        return await self._send_media(send, target, content, name, caption, chat)

    async def _send_media(
        self,
        send: Callable[..., Awaitable[Message]],
        target: Target,
        content: bytes,
        name: str,
        caption: Part,
        chat: int,
    ) -> Message:
        return await _placed(
            target,
            chat,
            lambda topic, reply: _with_fallback(
                caption,
                lambda text, mode: send(
                    chat,
                    InputFile(content, filename=name),
                    caption=text,
                    parse_mode=mode,
                    message_thread_id=topic,
                    reply_parameters=reply,
                ),
            ),
        )

    async def _send_typing(self, target: Target) -> None:
        async def call(chat: int) -> None:
            await self._bot.send_chat_action(chat, ChatAction.TYPING, message_thread_id=topic_of(target.thread_id))

        await self._lanes.send_sign(_chat(target), call)

    def _sent(self, nonce: str, target: Target, message: Message) -> str:
        ref = message_ref(message.chat.id, message.message_id, target.conversation_id)
        _keep(self._posted, nonce, ref)
        return ref

    def _notice(self, author: Author) -> None:
        _keep(self._names, author.id, author.display_name)


async def _placed(
    target: Target, chat: int, send: Callable[[int | None, ReplyParameters | None], Awaitable[Message]]
) -> Message:
    """Send to a target's topic, in reply; without what is no longer there.

    Telegram's own leave to do without the reply does not hold in topics.
    """
    topic, reply = topic_of(target.thread_id), _reply(target, chat)
    while True:
        try:
            return await send(topic, reply)
        except BadRequest as error:
            said = error.message.lower()
            if reply is not None and "message to be replied not found" in said:
                reply = None
            elif topic is not None and any(gone in said for gone in _TOPIC_GONE):
                topic = None
            else:
                raise


async def _with_fallback(part: Part, send: Callable[[str, ParseMode | None], Awaitable[T]]) -> T:
    """Send as HTML, and where that is not accepted as the text alone."""
    try:
        return await send(part.html, ParseMode.HTML)
    except BadRequest as error:
        if not is_parse_error(error):
            raise
        logger.error("our HTML was not accepted", extra={"reason": error.message})
        return await send(part.plain, None)


def _chat(target: Target) -> int:
    return int(target.conversation_id)


def _reply(target: Target, chat: int) -> ReplyParameters | None:
    """In groups an answer names its question; if that is gone it stands alone."""
    if target.reply_to is None or chat > 0:
        return None
    asked = native_id(target.reply_to, chat, target.conversation_id)
    return None if asked is None else ReplyParameters(asked, allow_sending_without_reply=True)


def _content(file: Path) -> bytes:
    if file.stat().st_size > MAX_UPLOAD:
        raise PlatformRefused("larger than 50 MB, the most that Telegram lets a bot send")
    return file.read_bytes()


def _keep(memory: "OrderedDict[str, str]", key: str, value: str) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > MAX_REMEMBERED:
        memory.popitem(last=False)
