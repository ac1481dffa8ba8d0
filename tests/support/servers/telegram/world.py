"""What Telegram holds: people, chats, messages with their edits, files, and the bot's updates."""

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from typing import Any

BOT_ID = 7_000_000_001
MAX_UPDATES = 100


@dataclass(slots=True)
class Person:
    """A user."""

    id: int
    first_name: str
    username: str | None = None
    blocked: bool = False
    """Whether they blocked the bot."""
    deleted: bool = False
    """Whether their account is gone."""

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id, "is_bot": False, "first_name": self.first_name}
        if self.username:
            found["username"] = self.username
        return found


@dataclass(slots=True)
class Room:
    """A chat."""

    id: int
    type: str
    title: str = ""
    person: Person | None = None
    forum: bool = False
    muted: bool = False
    """Whether the bot may not write."""
    kicked: bool = False
    moved_to: int | None = None
    messages: dict[int, "Shown"] = field(default_factory=dict)
    actions: list[tuple[float, str, int | None]] = field(default_factory=list)
    last_id: int = 0

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id, "type": self.type}
        if self.person is not None:
            found |= {"first_name": self.person.first_name}
            if self.person.username:
                found["username"] = self.person.username
        else:
            found["title"] = self.title
        if self.forum:
            found["is_forum"] = True
        return found


@dataclass(slots=True)
class Shown:
    """A message as people see it, and what they saw of it before."""

    id: int
    room: Room
    sender: dict[str, Any]
    date: int
    text: str = ""
    entities: list[dict[str, Any]] = field(default_factory=list)
    caption: str = ""
    file: "StoredFile | None" = None
    photo: bool = False
    reply_to: int | None = None
    topic: int | None = None
    source: str = ""
    """What the bot sent, before it was parsed."""
    history: list[str] = field(default_factory=list)
    """Each text that stood here, the last one last."""
    reaction: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    """Fields as they are in the API's form: of service messages, polls, forwards and so on."""
    edit_date: int | None = None

    @property
    def from_bot(self) -> bool:
        """Whether our bot wrote it."""
        return bool(self.sender["id"] == BOT_ID)

    def json(self, depth: int = 1) -> dict[str, Any]:
        """The documented form; a message replied to is given without its own."""
        found: dict[str, Any] = {
            "message_id": self.id,
            "chat": self.room.json(),
            "from": self.sender,
            "date": self.date,
            **self.extra,
        }
        if self.edit_date is not None:
            found["edit_date"] = self.edit_date
        if self.topic is not None:
            found |= {"message_thread_id": self.topic, "is_topic_message": True}
        if self.text:
            found |= {"text": self.text, **({"entities": self.entities} if self.entities else {})}
        if self.caption:
            found |= {"caption": self.caption, **({"caption_entities": self.entities} if self.entities else {})}
        if self.file is not None:
            found |= self.file.json(self.photo)
        replied = self.room.messages.get(self.reply_to) if self.reply_to is not None else None
        if replied is not None and depth > 0:
            found["reply_to_message"] = replied.json(depth - 1)
        return found


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file. ``declared`` is the size that Telegram tells, where a test has no time for the bytes."""

    file_id: str
    name: str
    media_type: str
    content: bytes
    declared: int | None = None

    @property
    def size(self) -> int:
        return len(self.content) if self.declared is None else self.declared

    @property
    def identity(self) -> dict[str, Any]:
        """What every kind of file has."""
        return {"file_id": self.file_id, "file_unique_id": f"u{self.file_id}", "file_size": self.size}

    def json(self, photo: bool) -> dict[str, Any]:
        if photo:
            small = {"file_id": f"{self.file_id}-s", "file_unique_id": "s", "file_size": 10, "width": 90, "height": 90}
            return {"photo": [small, {**self.identity, "width": 800, "height": 600}]}
        return {"document": {**self.identity, "file_name": self.name, "mime_type": self.media_type}}


class World:
    """Everything, and the queue of updates that the bot has not confirmed."""

    def __init__(self, bot: dict[str, Any]) -> None:
        self.bot = bot
        self.rooms: dict[int, Room] = {}
        self.files: dict[str, StoredFile] = {}
        self.links: dict[str, StoredFile] = {}
        """What `getFile` gave out, by path, for as long as it can be fetched there."""
        self.updates: list[dict[str, Any]] = []
        self.allowed: list[str] | None = None
        self.commands: dict[str, list[dict[str, str]]] = {}
        self.webhook = ""
        self.news = asyncio.Event()
        """Set when anything changes; whoever waits makes it a new one."""
        self._update_ids = itertools.count(700_000_001)
        self._file_ids = itertools.count(1)
        self._links = itertools.count(1)

    def add_file(self, name: str, media_type: str, content: bytes, declared: int | None = None) -> StoredFile:
        file = StoredFile(f"F{next(self._file_ids)}", name, media_type, content, declared)
        self.files[file.file_id] = file
        return file

    def link(self, file: StoredFile) -> str:
        """A path by which a file can be fetched for a while."""
        path = f"documents/file_{next(self._links)}"
        self.links[path] = file
        return path

    def add_message(self, room: Room, sender: dict[str, Any], **content: Any) -> Shown:
        """Put a message into a chat; ids count up in each."""
        room.last_id += 1
        message = Shown(room.last_id, room, sender, int(time.time()), **content)
        message.history.append(message.text or message.caption)
        room.messages[message.id] = message
        self.changed()
        return message

    def tell(self, kind: str, content: dict[str, Any]) -> int:
        """Queue an update, if the bot asked for its kind; its id."""
        update_id = next(self._update_ids)
        if self.allowed is None or not self.allowed or kind in self.allowed:
            self.updates.append({"update_id": update_id, kind: content})
        self.changed()
        return update_id

    def confirm(self, offset: int) -> None:
        """Forget what lies before an offset; a negative one counts from the end."""
        if offset < 0:
            self.updates = self.updates[offset:]
        else:
            self.updates = [u for u in self.updates if u["update_id"] >= offset]

    def changed(self) -> None:
        """Wake whoever waits for news."""
        self.news.set()
        self.news = asyncio.Event()
