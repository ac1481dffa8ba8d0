"""The other side: what people do in Telegram, and what they see."""

import asyncio
import itertools
import re
import time
from collections.abc import Callable
from typing import Any

from servers.telegram.html_entities import units
from servers.telegram.world import Person, Room, Shown, World

GROUP_IDS = -100_500_000_000
CHANNEL = {"id": -100_999, "type": "channel", "title": "News", "username": "news"}
# Telegram's own, who stand for those that are not to be seen.
ANONYMOUS = {"id": 1_087_968_824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
CHANNEL_BOT = {"id": 136_817_688, "is_bot": True, "first_name": "Channel", "username": "Channel_Bot"}
SERVICE = {"id": 777_000, "is_bot": False, "first_name": "Telegram"}
_ALBUMS = itertools.count(13_000_000_001)
_ENTITY = re.compile(r"(?:(?<=\s)|^)(@\w+|/\w+(?:@\w+)?)")
PATIENCE = 20.0
"""Seconds that `Chat.until` waits."""


class People:
    """Everybody, and every chat."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._people: dict[int, Person] = {}

    def person(self, user_id: int, name: str = "Ann", username: str | None = "ann") -> Person:
        """Somebody; the same one for the same id."""
        return self._people.setdefault(user_id, Person(user_id, name, username))

    def private(self, user_id: int, name: str = "Ann", username: str | None = "ann") -> "Chat":
        """Somebody's private chat with the bot."""
        person = self.person(user_id, name, username)
        room = self._world.rooms.setdefault(user_id, Room(user_id, "private", person=person))
        return Chat(self._world, room, person)

    def basic_group(self, number: int, person: Person, title: str = "Team") -> "Chat":
        """A group that has not become a supergroup yet."""
        room = self._world.rooms.setdefault(-number, Room(-number, "group", title))
        return Chat(self._world, room, person)

    def group(self, number: int, person: Person, title: str = "Team", forum: bool = False) -> "Chat":
        """A supergroup, seen by one of its members."""
        chat_id = GROUP_IDS - number
        room = self._world.rooms.setdefault(chat_id, Room(chat_id, "supergroup", title, forum=forum))
        return Chat(self._world, room, person)


class Chat:
    """A chat as one person sees it."""

    def __init__(self, world: World, room: Room, person: Person) -> None:
        self._world = world
        self.room = room
        self.person = person

    @property
    def id(self) -> str:
        return str(self.room.id)

    def seen_by(self, person: Person) -> "Chat":
        """The same chat, another person."""
        return Chat(self._world, self.room, person)

    # What people do

    def send(self, text: str, reply_to: int | None = None, topic: int | None = None) -> Shown:
        """Write; mentions and commands get their entities, as clients make them."""
        return self._sent(text=text, entities=entities_of(text), reply_to=reply_to, topic=topic)

    def send_file(
        self,
        name: str,
        content: bytes,
        *,
        caption: str = "",
        photo: bool = False,
        media_type: str = "text/plain",
        declared: int | None = None,
    ) -> Shown:
        """Send a document or a photo."""
        file = self._world.add_file(name, media_type, content, declared)
        return self._sent(caption=caption, entities=entities_of(caption), file=file, photo=photo)

    def mention(self, name: str, user_id: int, text: str) -> Shown:
        """Write to somebody without a user name, chosen from the client's list."""
        mentioned = {"id": user_id, "is_bot": False, "first_name": name}
        entity = {"type": "text_mention", "offset": 0, "length": units(name), "user": mentioned}
        return self._sent(text=f"{name} {text}", entities=[entity])

    def edit(self, message: Shown, text: str) -> None:
        """Change what was written."""
        message.text, message.edit_date = text, int(time.time())
        message.history.append(text)
        self._world.tell("edited_message", message.json())

    def delete(self, message: Shown) -> None:
        """Take a message away, for everybody."""
        self.room.messages.pop(message.id, None)
        self._world.changed()

    def open_topic(self, name: str) -> int:
        """Begin a topic of a forum; its id."""
        created = {"forum_topic_created": {"name": name, "icon_color": 7322096}}
        opened = self._world.add_message(self.room, self.person.json(), extra=created)
        opened.topic = opened.id
        self._world.tell("message", opened.json())
        return opened.id

    def join(self) -> None:
        """A service message."""
        joined = {"new_chat_members": [self.person.json()]}
        self._sent(extra=joined)

    def as_bot(self, text: str) -> Shown:
        """Another bot writes."""
        sender = {"id": 8_000_000_000, "is_bot": True, "first_name": "other", "username": "other_bot"}
        return self._sent(sender, text=text, entities=entities_of(text))

    def as_anonymous(self, text: str, signature: str = "") -> Shown:
        """An admin writes who is shown as the group."""
        extra = {"sender_chat": self.room.json(), **({"author_signature": signature} if signature else {})}
        return self._sent(ANONYMOUS, text=text, entities=entities_of(text), extra=extra)

    def as_channel(self, text: str, automatic: bool = False) -> Shown:
        """Somebody writes as a channel of theirs, or a linked channel's post is put here."""
        extra: dict[str, Any] = {"sender_chat": CHANNEL}
        if automatic:
            origin = {"type": "channel", "date": 1_700_000_000, "chat": CHANNEL, "message_id": 5}
            extra |= {"is_automatic_forward": True, "forward_origin": origin}
        sender = SERVICE if automatic else CHANNEL_BOT
        return self._sent(sender, text=text, entities=entities_of(text), extra=extra)

    def album(self, *pictures: tuple[bytes, str], told: bool = True) -> list[Shown]:
        """Send pictures, each with its caption, as one album; ``told`` one after another, at once."""
        group = {"media_group_id": str(next(_ALBUMS))}
        return [self.picture(content, caption, group, told) for content, caption in pictures]

    def picture(self, content: bytes, caption: str, extra: dict[str, Any], told: bool = True) -> Shown:
        """Send one picture; of an album by what ``extra`` says."""
        file = self._world.add_file("", "image/jpeg", content)
        entities = entities_of(caption)
        return self._sent(caption=caption, entities=entities, file=file, photo=True, extra=extra, told=told)

    def tell(self, message: Shown) -> None:
        """Have the bot know of a message that it was not told of."""
        self._world.tell("message", message.json())

    def special(self, reply_to: int | None = None, text: str = "", **extra: Any) -> Shown:
        """Send something by its fields: a poll, a contact, a quote, a forward, …"""
        return self._sent(text=text, entities=entities_of(text), reply_to=reply_to, extra=extra)

    def voice(self, content: bytes, seconds: int) -> Shown:
        """Speak."""
        file = self._world.add_file("", "audio/ogg", content)
        return self._sent(extra={"voice": {**file.identity, "duration": seconds, "mime_type": "audio/ogg"}})

    def sticker(self, content: bytes, emoji: str, **kind: bool) -> Shown:
        """Send a sticker."""
        file = self._world.add_file("", "image/webp", content)
        told = {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False, "emoji": emoji}
        return self._sent(extra={"sticker": {**file.identity, **told, **kind}})

    def upgrade(self, number: int) -> "Chat":
        """Make the group a supergroup, which has another id and counts its messages from 1 again."""
        chat_id = GROUP_IDS - number
        room = Room(chat_id, "supergroup", self.room.title)
        self._world.rooms[chat_id] = room
        later = Chat(self._world, room, self.person)
        self._sent(extra={"migrate_to_chat_id": chat_id})
        self.room.moved_to = chat_id
        later._sent(ANONYMOUS, extra={"sender_chat": room.json(), "migrate_from_chat_id": self.room.id})
        return later

    def channel_post(self, text: str) -> None:
        """A channel's post."""
        self._world.tell("channel_post", {"message_id": 1, "date": 1_700_000_000, "chat": CHANNEL, "text": text})

    # What people see

    @property
    def messages(self) -> list[Shown]:
        """All that stands, in order."""
        return list(self.room.messages.values())

    @property
    def answers(self) -> list[Shown]:
        """What stands of the bot's."""
        return [m for m in self.messages if m.from_bot]

    @property
    def texts(self) -> list[str]:
        """The bot's texts."""
        return [m.text or m.caption for m in self.answers]

    async def until(self, condition: Callable[["Chat"], object], patience: float = PATIENCE) -> "Chat":
        """Wait until something can be seen.

        Raises:
            AssertionError: it could not, for too long.
        """
        try:
            async with asyncio.timeout(patience):
                while not condition(self):
                    await self._world.news.wait()
        except TimeoutError:
            raise AssertionError(f"not seen in {patience} s; now there is {self.texts}") from None
        return self

    async def answered(self, text: str) -> Shown:
        """Wait for a text of the bot's."""
        await self.until(lambda chat: text in chat.texts)
        return next(m for m in self.answers if (m.text or m.caption) == text)

    def _sent(
        self,
        sender: dict[str, Any] | None = None,
        reply_to: int | None = None,
        topic: int | None = None,
        told: bool = True,
        **content: Any,
    ) -> Shown:
        if topic is not None and reply_to is None:
            reply_to = topic
        author = sender or self.person.json()
        message = self._world.add_message(self.room, author, reply_to=reply_to, topic=topic, **content)
        if told:
            self.tell(message)
        return message


def entities_of(text: str) -> list[dict[str, Any]]:
    """Mentions and commands, as a client marks them."""
    found = []
    for match in _ENTITY.finditer(text):
        kind = "mention" if match[1].startswith("@") else "bot_command"
        found.append({"type": kind, "offset": units(text[: match.start(1)]), "length": units(match[1])})
    return found
