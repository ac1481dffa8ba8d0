"""The methods of the Bot API that a chat bot calls, with what each refuses."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from servers.telegram.errors import ApiError, bad_request
from servers.telegram.flood import Flood
from servers.telegram.html_entities import parse_html, units
from servers.telegram.world import MAX_UPDATES, Room, Shown, World

MAX_TEXT, MAX_CAPTION = 4_096, 1_024
MAX_DOWNLOAD = 20 * 1024 * 1024
MAX_POLL = 50
SAME_HELD, SAME_LIMITED, CONFLICT_HELD = 3.0, 0.5, 3.0
"""Seconds for which a poll counts as the same again, holds it, and holds back the next conflict."""
MAX_SOURCE = 2**15
"""Bytes of a text before it is parsed."""
TERMINATED = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
ACTIONS = {
    "typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice", "upload_document",
    "choose_sticker", "find_location", "record_video_note", "upload_video_note",
}  # fmt: skip
REACTIONS = {"👍", "👎", "❤", "🔥", "👀", "🎉", "👌", "🤔"}
Parameters = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Content:
    """A text with its entities."""

    source: str
    text: str
    entities: list[dict[str, Any]]


class Methods:
    """Carries out calls on a world."""

    def __init__(self, world: World, flood: Flood) -> None:
        self.world = world
        self.flood = flood
        self._poll: asyncio.Future[None] | None = None
        self._polled: tuple[int, float] = (0, float("-inf"))
        """Offset of the last poll, and when it came."""
        self._next_conflict = float("-inf")
        self._methods: dict[str, Callable[[Parameters], Awaitable[Any]]] = {
            name.lower(): method
            for name, method in {
                "getMe": self._get_me,
                "getUpdates": self._get_updates,
                "setWebhook": self._set_webhook,
                "deleteWebhook": self._delete_webhook,
                "sendMessage": self._send_message,
                "editMessageText": self._edit_message_text,
                "deleteMessage": self._delete_message,
                "sendChatAction": self._send_chat_action,
                "sendPhoto": self._send_photo,
                "sendDocument": self._send_document,
                "getFile": self._get_file,
                "setMyCommands": self._set_my_commands,
                "setMessageReaction": self._set_message_reaction,
            }.items()
        }

    async def call(self, method: str, parameters: Parameters) -> Any:
        """The result of a call; names are not case-sensitive.

        Raises:
            ApiError: it is refused.
        """
        found = self._methods.get(method.lower())
        if found is None:
            raise ApiError(404, "Not Found: method not found")
        return await found(parameters)

    # Updates

    async def _get_me(self, _: Parameters) -> Any:
        return self.world.bot

    async def _get_updates(self, parameters: Parameters) -> Any:
        if self.world.webhook:
            raise ApiError(
                409,
                "Conflict: can't use getUpdates method while webhook is active; "
                "use deleteWebhook to delete the webhook first",
            )
        offset, limit = _whole(parameters, "offset", 0), _within(parameters, "limit", MAX_UPDATES, 1, MAX_UPDATES)
        timeout = _within(parameters, "timeout", 0, 0, MAX_POLL)
        # Who asks for the same again within a moment is held, and gets one update (`process_get_updates_query` in
        # Telegram's own telegram-bot-api).
        last, at = self._polled
        if offset == last and time.monotonic() < at + SAME_HELD:
            timeout = max(timeout, int(SAME_HELD))
        if offset == last and time.monotonic() < at + SAME_LIMITED:
            limit = 1
        self._polled = offset, time.monotonic()
        if parameters.get("allowed_updates") is not None:
            self.world.allowed = _json(parameters, "allowed_updates")
        if offset:
            self.world.confirm(offset)
        if timeout and not self.world.updates:
            await self._await_updates(timeout)
        return self.world.updates[:limit]

    async def _await_updates(self, seconds: float) -> None:
        if self._poll is not None and not self._poll.done():
            # The one that waited is told, and the new one takes its place.
            self._poll.set_exception(ApiError(409, TERMINATED))
        mine = self._poll = asyncio.get_running_loop().create_future()
        deadline = time.monotonic() + seconds
        try:
            while not self.world.updates and (left := deadline - time.monotonic()) > 0:
                news = asyncio.ensure_future(self.world.news.wait())
                await asyncio.wait({news, mine}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if mine.done():
                    await self._tell_of_conflict()
                    mine.result()
        finally:
            mine.cancel()

    async def _tell_of_conflict(self) -> None:
        """At once, but for one that comes soon after another: that is held back for a while."""
        now = time.monotonic()
        if now < self._next_conflict:
            await asyncio.sleep(CONFLICT_HELD)
        else:
            self._next_conflict = now + CONFLICT_HELD

    async def _set_webhook(self, parameters: Parameters) -> Any:
        self.world.webhook = str(parameters.get("url", ""))
        return True

    async def _delete_webhook(self, _: Parameters) -> Any:
        self.world.webhook = ""
        return True

    # Messages

    async def _send_message(self, parameters: Parameters) -> Any:
        room = self._room(parameters)
        content = _content(parameters, "text", "entities")
        if not content.text:
            raise bad_request("message text is empty")
        if units(content.text) > MAX_TEXT:
            raise bad_request("message is too long")
        placed = self._placed(room, parameters)
        self.flood.admit(room.id)
        message = self.world.add_message(
            room, self.world.bot, text=content.text, entities=content.entities, source=content.source, **placed
        )
        return message.json()

    async def _edit_message_text(self, parameters: Parameters) -> Any:
        message = self._own_message(parameters, "message to edit not found", "message can't be edited")
        content = _content(parameters, "text", "entities")
        if not content.text:
            raise bad_request("message text is empty")
        if units(content.text) > MAX_TEXT:
            raise bad_request("message is too long")
        if message.file is not None:
            raise bad_request("there is no text in the message to edit")
        if (content.text, content.entities) == (message.text, message.entities):
            raise bad_request(
                "message is not modified: specified new message content and reply markup are exactly the same as "
                "a current content and reply markup of the message"
            )
        self.flood.admit(message.room.id)
        message.text, message.entities, message.source = content.text, content.entities, content.source
        message.edit_date = int(time.time())
        message.history.append(message.text)
        self.world.changed()
        return message.json()

    async def _delete_message(self, parameters: Parameters) -> Any:
        message = self._own_message(parameters, "message to delete not found", "message can't be deleted")
        del message.room.messages[message.id]
        self.world.changed()
        return True

    async def _send_chat_action(self, parameters: Parameters) -> Any:
        room = self._room(parameters)
        action = str(parameters.get("action", ""))
        if action not in ACTIONS:
            raise bad_request("wrong parameter action in request")
        self.flood.admit(room.id, message=False)
        topic = parameters.get("message_thread_id")
        room.actions.append((time.monotonic(), action, int(topic) if topic else None))
        self.world.changed()
        return True

    async def _send_photo(self, parameters: Parameters) -> Any:
        upload = _upload(parameters, "photo")
        content = upload.file.read()
        if len(content) > 10 * 1024 * 1024:
            raise bad_request("file of size is too big for a photo; the maximum size is 10485760 bytes")
        if not content.startswith((b"\x89PNG", b"\xff\xd8\xff", b"RIFF")):
            raise bad_request("IMAGE_PROCESS_FAILED")
        if content.startswith(b"\x89PNG") and not _is_shaped_well(content):
            raise bad_request("PHOTO_INVALID_DIMENSIONS")
        return self._send_file(parameters, upload.filename, "image/jpeg", content, photo=True)

    async def _send_document(self, parameters: Parameters) -> Any:
        upload = _upload(parameters, "document")
        content = upload.file.read()
        if len(content) > 50 * 1024 * 1024:
            raise ApiError(413, "Request Entity Too Large")
        if not content:
            raise bad_request("file must be non-empty")
        return self._send_file(parameters, upload.filename, upload.content_type, content, photo=False)

    def _send_file(self, parameters: Parameters, name: str, media_type: str, content: bytes, photo: bool) -> Any:
        room = self._room(parameters)
        caption = _content(parameters, "caption", "caption_entities")
        if units(caption.text) > MAX_CAPTION:
            raise bad_request("message caption is too long")
        placed = self._placed(room, parameters)
        self.flood.admit(room.id)
        file = self.world.add_file(name, media_type, content)
        message = self.world.add_message(
            room,
            self.world.bot,
            caption=caption.text,
            entities=caption.entities,
            source=caption.source,
            file=file,
            photo=photo,
            **placed,
        )
        return message.json()

    async def _get_file(self, parameters: Parameters) -> Any:
        file = self.world.files.get(str(parameters.get("file_id", "")))
        if file is None:
            raise bad_request("wrong file_id or the file is temporarily unavailable")
        if file.size > MAX_DOWNLOAD:
            raise bad_request("file is too big")
        return {
            "file_id": file.file_id,
            "file_unique_id": f"u{file.file_id}",
            "file_size": file.size,
            "file_path": self.world.link(file),
        }

    async def _set_my_commands(self, parameters: Parameters) -> Any:
        commands = _json(parameters, "commands")
        for command in commands:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", command["command"]):
                raise bad_request("BOT_COMMAND_INVALID")
            if not 1 <= len(command["description"]) <= 256:
                raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
        if len(commands) > 100:
            raise bad_request("BOT_COMMANDS_TOO_MUCH")
        scope = _json(parameters, "scope") if parameters.get("scope") else {"type": "default"}
        self.world.commands[scope["type"]] = commands
        return True

    async def _set_message_reaction(self, parameters: Parameters) -> Any:
        room = self._room(parameters)
        message = room.messages.get(_whole(parameters, "message_id", 0))
        if message is None:
            raise bad_request("message to react not found")
        reactions = _json(parameters, "reaction") if parameters.get("reaction") else []
        if any(r.get("emoji") not in REACTIONS for r in reactions):
            raise bad_request("REACTION_INVALID")
        message.reaction = reactions[0]["emoji"] if reactions else ""
        return True

    # What they share

    def _room(self, parameters: Parameters) -> Room:
        given = str(parameters.get("chat_id", ""))
        if not given:
            raise bad_request("chat_id is empty")
        room = self.world.rooms.get(int(given)) if re.fullmatch(r"-?[0-9]+", given) else None
        if room is None:
            raise bad_request("chat not found")
        if room.moved_to is not None:
            raise ApiError(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=room.moved_to,
            )
        if room.person is not None and room.person.deleted:
            raise ApiError(403, "Forbidden: user is deactivated")
        if room.person is not None and room.person.blocked:
            raise ApiError(403, "Forbidden: bot was blocked by the user")
        if room.kicked:
            raise ApiError(403, f"Forbidden: bot was kicked from the {room.type} chat")
        if room.muted:
            raise bad_request("not enough rights to send text messages to the chat")
        return room

    def _own_message(self, parameters: Parameters, missing: str, not_ours: str) -> Shown:
        room = self._room(parameters)
        message = room.messages.get(_whole(parameters, "message_id", 0))
        if message is None:
            raise bad_request(missing)
        if not message.from_bot:
            raise bad_request(not_ours)
        return message

    def _placed(self, room: Room, parameters: Parameters) -> dict[str, Any]:
        """Topic and reply of a new message."""
        topic = _whole(parameters, "message_thread_id", 0) or None
        if topic is not None and (not room.forum or topic not in room.messages):
            raise bad_request("message thread not found")
        reply = _json(parameters, "reply_parameters") if parameters.get("reply_parameters") else None
        if reply is None:
            return {"topic": topic, "reply_to": None}
        if reply["message_id"] not in room.messages:
            # "Always False for … forum topic replies" (Bot API "ReplyParameters").
            if not reply.get("allow_sending_without_reply") or topic is not None:
                raise bad_request("message to be replied not found")
            return {"topic": topic, "reply_to": None}
        replied = room.messages[reply["message_id"]]
        return {"topic": topic or replied.topic, "reply_to": replied.id}


def _content(parameters: Parameters, name: str, entities: str) -> Content:
    source = str(parameters.get(name) or "")
    mode = str(parameters.get("parse_mode") or "")
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE:
        raise bad_request("text is too long")
    try:
        source.encode()
    except UnicodeEncodeError:
        raise bad_request("strings must be encoded in UTF-8") from None
    if mode.lower() == "html":
        text, found = parse_html(source)
    elif not mode:
        text, found = source, (_json(parameters, entities) if parameters.get(entities) else [])
    else:
        raise bad_request("unsupported parse_mode")
    return Content(source, *_trimmed(text, found))


def _trimmed(text: str, entities: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Without white space around, as Telegram stores it; entities keep to what is left."""
    left = units(text) - units(text.lstrip())
    whole = text.strip()
    kept = []
    for entity in entities:
        begin = max(0, entity["offset"] - left)
        end = min(units(whole), entity["offset"] + entity["length"] - left)
        if end > begin:
            kept.append({**entity, "offset": begin, "length": end - begin})
    return whole, kept


def _upload(parameters: Parameters, name: str) -> web.FileField:
    found = parameters.get(name)
    if isinstance(found, str) and found.startswith("attach://"):
        found = parameters.get(found.removeprefix("attach://"))
    if not isinstance(found, web.FileField):
        raise bad_request(f"there is no {name} in the request")
    return found


def _whole(parameters: Parameters, name: str, default: int) -> int:
    given = parameters.get(name)
    if given is None or given == "":
        return default
    try:
        return int(str(given))
    except ValueError:
        raise bad_request(f'wrong parameter "{name}": it must be an integer') from None


def _within(parameters: Parameters, name: str, default: int, low: int, high: int) -> int:
    return min(max(_whole(parameters, name, default), low), high)


def _is_shaped_well(png: bytes) -> bool:
    """Whether width and height are what `sendPhoto` takes: at most 10,000 together, and 20 times each other."""
    width, height = int.from_bytes(png[16:20]), int.from_bytes(png[20:24])
    return 0 < width + height <= 10_000 and max(width, height) <= 20 * min(width, height)


def _json(parameters: Parameters, name: str) -> Any:
    given = parameters.get(name)
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError:
        raise bad_request(f"can't parse {name} JSON object") from None
