"""Files of a Telegram message: which there are, and fetching them into the spool."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from telegram import Bot, Message
from telegram.error import BadRequest, NetworkError, RetryAfter, TelegramError

from mikan_api.identity import OfficeKey
from mikan_api.messaging import Attachment
from mikan_gateway.exceptions import GatewayError
from mikan_gateway.platforms.file_names import sanitized
from mikan_gateway.platforms.telegram.errors import reason, seconds_to_wait
from mikan_gateway.ports import Spool

MAX_DOWNLOAD = 20 * 1024 * 1024
"""Bytes that Telegram lets a bot fetch (Bot API "getFile")."""
TOO_LARGE = "larger than 20 MB, the most that Telegram lets a bot fetch; please send it another way"
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
        found.append(NativeFile(message.sticker.file_id, "sticker.webp", "image/webp", message.sticker.file_size))
    return found


class TelegramFiles:
    """Implements `AttachmentSource`."""

    def __init__(self, bot: Bot, message: Message, files: Sequence[NativeFile]) -> None:
        self._bot = bot
        self._message = message
        self._files = files

    async def fetch(self, office: OfficeKey, spool: Spool) -> Sequence[Attachment]:
        """Fetch each file; one that fails carries its error."""
        return [await self._fetch(office, spool, index, file) for index, file in enumerate(self._files)]

    async def _fetch(self, office: OfficeKey, spool: Spool, index: int, file: NativeFile) -> Attachment:
        message = self._message
        # The same for a message that comes twice, so that no copy is left over.
        identity = hashlib.sha256(f"{message.chat.id}\0{message.message_id}\0{index}".encode()).hexdigest()[:32]
        stamp = int(message.date.timestamp() * 1000)
        attachment = Attachment(
            id=identity,
            name=f"{stamp}_{message.message_id}_{index}_{sanitized(file.name)}",
            original_name=file.name,
            media_type=file.media_type,
        )
        if file.size is not None and file.size > MAX_DOWNLOAD:
            return attachment.model_copy(update={"error": TOO_LARGE})
        try:
            content = await self._download(file.file_id)
            size = await spool.save_attachment(office, identity, _pieces(content))
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
            except (NetworkError, RetryAfter) as error:
                if attempt == TRIES:
                    raise
                wait = seconds_to_wait(error) if isinstance(error, RetryAfter) else FIRST_PAUSE * 2**attempt
                logger.info("file is fetched again", extra={"reason": reason(error), "attempt": attempt})
                await asyncio.sleep(min(wait, MAX_PAUSE))


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]
