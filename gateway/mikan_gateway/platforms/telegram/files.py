"""Files of Telegram messages: which there are, and fetching them into the spool."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from telegram import Bot, Message, Sticker
from telegram.error import BadRequest, InvalidToken, NetworkError, RetryAfter, TelegramError

from mikan_api.identity import OfficeKey
from mikan_api.messaging import Attachment
from mikan_gateway.exceptions import GatewayError
from mikan_gateway.platforms.file_names import sanitized
from mikan_gateway.platforms.telegram.errors import reason, seconds_to_wait
from mikan_gateway.ports import Spool

MAX_DOWNLOAD = 20 * 1024 * 1024
"""Bytes that Telegram lets a bot fetch (Bot API "getFile")."""
TOO_LARGE = "larger than 20 MB, the most that Telegram lets a bot fetch; please send it another way"
DOWNLOADS_AT_ONCE = 2
"""Files are in memory while they are fetched."""
TRIES = 4
FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0
_PIECE = 256 * 1024

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NativeFile:
    """A file as Telegram names it."""

    file_id: str
    name: str
    media_type: str
    size: int | None


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file with its place in a message."""

    file: NativeFile
    message: Message
    index: int

    @property
    def attachment(self) -> Attachment:
        """As the office gets it, but for its size. The same for a message that comes twice, so no copy is left over."""
        message, name = self.message, self.file.name
        place = f"{message.chat.id}\0{message.message_id}\0{self.index}"
        stamp = int(message.date.timestamp() * 1000)
        return Attachment(
            id=hashlib.sha256(place.encode()).hexdigest()[:32],
            name=f"{stamp}_{message.message_id}_{self.index}_{sanitized(name)}",
            original_name=name,
            media_type=self.file.media_type,
        )


def sent_files(messages: Iterable[Message]) -> list[SentFile]:
    """The files of messages, in order."""
    return [SentFile(file, one, index) for one in messages for index, file in enumerate(files_of(one))]


def files_of(message: Message) -> list[NativeFile]:
    """The files of a message; of a photo the largest size."""
    found: list[NativeFile] = []
    if message.photo:
        photo = message.photo[-1]
        found.append(NativeFile(photo.file_id, "photo.jpg", "image/jpeg", photo.file_size))
    # An animation also comes as a document.
    for media, fallback, media_type in (
        (message.document, "document", "application/octet-stream"),
        (message.video, "video.mp4", "video/mp4"),
        (message.audio, "audio.mp3", "audio/mpeg"),
        (message.voice, "voice.ogg", "audio/ogg"),
        (message.video_note, "video.mp4", "video/mp4"),
    ):
        if media is not None:
            name = getattr(media, "file_name", None) or fallback
            kind = getattr(media, "mime_type", None) or media_type
            found.append(NativeFile(media.file_id, name, kind, media.file_size))
    if message.sticker:
        found.append(_sticker(message.sticker))
    return found


def _sticker(sticker: Sticker) -> NativeFile:
    name, kind = "sticker.webp", "image/webp"
    if sticker.is_animated:
        name, kind = "sticker.tgs", "application/x-tgsticker"
    elif sticker.is_video:
        name, kind = "sticker.webm", "video/webm"
    return NativeFile(sticker.file_id, name, kind, sticker.file_size)


class Downloads:
    """Fetches files, few at a time."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self._room = asyncio.Semaphore(DOWNLOADS_AT_ONCE)

    def of(self, files: Sequence[SentFile]) -> "TelegramFiles | None":
        """The files of one message, still at Telegram; ``None`` if it has none."""
        return TelegramFiles(self, files) if files else None

    async def fetch(self, office: OfficeKey, spool: Spool, sent: SentFile) -> Attachment:
        """Fetch a file; one that fails carries its error."""
        attachment = sent.attachment
        if sent.file.size is not None and sent.file.size > MAX_DOWNLOAD:
            return attachment.model_copy(update={"error": TOO_LARGE})
        try:
            async with self._room:
                content = await self._download(sent.file.file_id)
                size = await spool.save_attachment(office, attachment.id, _pieces(content))
        except TelegramError as error:
            problem = TOO_LARGE if "too big" in error.message.lower() else reason(error)
            return attachment.model_copy(update={"error": problem})
        except GatewayError as error:
            return attachment.model_copy(update={"error": str(error)})
        return attachment.model_copy(update={"size": size})

    async def _download(self, file_id: str) -> bytes:
        attempt = 0
        while True:
            attempt += 1
            try:
                found = await self._bot.get_file(file_id)
                return bytes(await found.download_as_bytearray())
            except BadRequest:
                raise
            except (NetworkError, RetryAfter, InvalidToken) as error:
                # The library takes a link that has expired (404) for a wrong token; `getFile` gives another one.
                if attempt == TRIES:
                    raise
                wait = seconds_to_wait(error) if isinstance(error, RetryAfter) else FIRST_PAUSE * 2**attempt
                logger.info("file is fetched again", extra={"reason": reason(error), "attempt": attempt})
                await asyncio.sleep(min(wait, MAX_PAUSE))


class TelegramFiles:
    """Implements `AttachmentSource`."""

    def __init__(self, downloads: Downloads, files: Sequence[SentFile]) -> None:
        self._downloads, self._files = downloads, files

    async def fetch(self, office: OfficeKey, spool: Spool) -> Sequence[Attachment]:
        """Fetch each file; one that fails carries its error."""
        return await asyncio.gather(*(self._downloads.fetch(office, spool, file) for file in self._files))


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]
