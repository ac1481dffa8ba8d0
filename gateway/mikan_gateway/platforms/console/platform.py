"""The console as a chat platform: it behaves like a remote one, with message ids, edits, and nonces that it knows.

Every console conversation is direct: whoever has the token is let in, and names themselves.
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from mikan_api.console import ConsoleSend
from mikan_api.environment import Listen
from mikan_api.identity import OfficeKey, Platform
from mikan_api.messaging import (
    Attachment,
    Author,
    ConversationEvent,
    ConversationKind,
    ConversationMessage,
    MessagingInfo,
    TrustModel,
)
from mikan_api.session_keys import parse_session_key
from mikan_gateway.exceptions import GatewayError, PlatformUnavailable, StorageError
from mikan_gateway.http_server import HttpServer
from mikan_gateway.platforms.console.api import build_console_app
from mikan_gateway.platforms.console.feed import Feed
from mikan_gateway.platforms.console.files import ConsoleFiles
from mikan_gateway.platforms.file_names import sanitized
from mikan_gateway.ports import Health, InboundMessage, Intake, Spool, Target
from mikan_gateway.rendering.split import split_text
from mikan_gateway.storage.console import ConsoleMessage, ConsoleStore

PACE = 0.05
"""Seconds between two edits: a terminal can take many."""
MAX_TEXT = 16_000
BOT = "mikan"


class ConsolePlatform:
    """Implements `ChatPlatform`."""

    def __init__(self, store: ConsoleStore, files_dir: Path, listen: Listen, token: str) -> None:
        self.feed = Feed(store)
        self.files = ConsoleFiles(files_dir)
        self._listen = listen
        self._token = token
        self._intake: Intake | None = None
        self._server: HttpServer | None = None

    @property
    def platform(self) -> Platform:
        return Platform.CONSOLE

    @property
    def pace(self) -> float:
        return PACE

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.port if self._server else 0

    async def start(self, intake: Intake) -> None:
        """Listen for messages.

        Raises:
            ConfigError: the address cannot be had.
        """
        self._intake = intake
        await self.files.sweep()
        self._server = HttpServer(build_console_app(self, self._token), self._listen, "console")
        await self._server.start()

    async def stop_intake(self) -> None:
        self._intake = None

    async def stop(self) -> None:
        self.feed.close()
        if self._server:
            await self._server.stop()

    def health(self) -> Health:
        ok = self._server is not None and self._server.running
        return Health(ok, "" if ok else "the console's listener is not running")

    def info(self, trust_model: TrustModel, display_name: str) -> MessagingInfo:
        return MessagingInfo(
            platform=Platform.CONSOLE,
            trust_model=trust_model,
            bot_name=BOT,
            display_name=display_name,
            max_text_length=MAX_TEXT,
            can_stream=True,
            can_upload=True,
        )

    async def receive(self, conversation_id: str, send: ConsoleSend) -> int | None:
        """Take what somebody typed; its log number, ``None`` if they were turned away.

        Raises:
            PlatformUnavailable: this process takes no messages (any more).
            UserFault, ClusterError, StorageError: as the intake.
            InvalidValue: an id that no office or session can have.
        """
        if self._intake is None:
            raise PlatformUnavailable("the gateway is starting or stopping; try again in a moment")
        return await self._intake.receive(self._normalized(conversation_id, send))

    async def post(self, target: Target, text: str, nonce: str, draft: bool = False) -> str:
        message = self._message("post", target, _message_id(nonce), text=text)
        return (await self._append(message, nonce)).message_id

    async def edit(self, target: Target, message_id: str, text: str, draft: bool = False) -> None:
        if draft:
            self.feed.draft(target.conversation_id, message_id, text)
        else:
            await self._append(self._message("edit", target, message_id, text=text))

    async def delete(self, target: Target, message_id: str) -> None:
        await self._append(self._message("delete", target, message_id))

    async def upload(self, target: Target, file: Path, name: str, title: str, nonce: str) -> str:
        message_id = _message_id(nonce)
        try:
            size = await self.files.take(target.conversation_id, message_id, file)
        except StorageError as error:
            raise PlatformUnavailable(str(error)) from error
        message = self._message("upload", target, message_id)
        shown = message.model_copy(update={"file_id": message_id, "file_name": name, "title": title, "size": size})
        return (await self._append(shown, nonce)).message_id

    async def set_working(self, target: Target, working: bool) -> None:
        if working:
            self.feed.working(target.conversation_id, target.reply_to)
        else:
            message = self._message("working", target, "").model_copy(update={"working": False})
            await self._append(message)

    def split(self, text: str) -> Sequence[str]:
        return split_text(text, MAX_TEXT)

    async def _append(self, message: ConsoleMessage, nonce: str | None = None) -> ConsoleMessage:
        try:
            return await self.feed.append(message, nonce)
        except StorageError as error:
            raise PlatformUnavailable(str(error)) from error

    def _message(self, kind: str, target: Target, message_id: str, text: str = "") -> ConsoleMessage:
        return ConsoleMessage.model_validate(
            {
                "conversation": target.conversation_id,
                "message_id": message_id,
                "kind": kind,
                "author": BOT,
                "from_bot": True,
                "text": text,
                "thread": target.thread_id,
                "reply_to": target.reply_to,
                "time": datetime.now(UTC),
            }
        )

    def _normalized(self, conversation_id: str, send: ConsoleSend) -> InboundMessage:
        author = Author(id=send.user_id, user_name=send.user_name or send.user_id, display_name=send.user_name)
        suffix = f":{send.thread}" if send.thread else ""
        now = datetime.now(UTC)
        event = ConversationEvent(
            platform=Platform.CONSOLE,
            conversation_id=conversation_id,
            conversation_kind=ConversationKind.DIRECT,
            session_key=parse_session_key(f"{conversation_id}{suffix}"),
            message=ConversationMessage(
                id=send.message_id, thread_id=send.thread, author=author, text=send.text, time=now
            ),
        )
        info = self.info(TrustModel.MEMBERSHIP, conversation_id).model_copy(update={"users": (author,)})
        files = _PutFiles(self.files, conversation_id, send, now) if send.attachments else None
        return InboundMessage(event, info, triggered=True, top_level=send.thread is None, attachments=files)


class _PutFiles:
    """Attachments of a message: files that were put before it."""

    def __init__(self, files: ConsoleFiles, conversation_id: str, send: ConsoleSend, now: datetime) -> None:
        self._files = files
        self._conversation_id = conversation_id
        self._send = send
        self._stamp = int(now.timestamp() * 1000)

    async def fetch(self, office: OfficeKey, spool: Spool) -> Sequence[Attachment]:
        return [await self._fetch(office, spool, index) for index in range(len(self._send.attachments))]

    async def _fetch(self, office: OfficeKey, spool: Spool, index: int) -> Attachment:
        wanted = self._send.attachments[index]
        # The same for a message that comes twice, so that no copy is left over.
        identity = hashlib.sha256(f"{self._send.message_id}\0{wanted.id}".encode()).hexdigest()[:32]
        attachment = Attachment(
            id=identity,
            name=f"{self._stamp}_{index}_{sanitized(wanted.name)}",
            original_name=wanted.name,
            media_type=wanted.media_type,
        )
        try:
            content = self._files.read(self._conversation_id, wanted.id)
            size = await spool.save_attachment(office, identity, content)
        except FileNotFoundError:
            return attachment.model_copy(update={"error": "the file was not uploaded before the message"})
        except GatewayError as error:
            return attachment.model_copy(update={"error": str(error)})
        return attachment.model_copy(update={"size": size})


def _message_id(nonce: str) -> str:
    """The same nonce names the same message, so even its id needs no look-up."""
    return f"m{hashlib.sha256(nonce.encode()).hexdigest()[:24]}"
