"""Session keys and triggers of Telegram's messages, exactly as the table says (behaviour "Session keys", "Intake")."""

from datetime import UTC, datetime
from typing import Any

import pytest
from telegram import Bot, Update, User

from gateway_edges import FixedSettings
from mikan_api.identity import office_key
from mikan_api.messaging import ConversationKind
from mikan_gateway.platforms.telegram.files import Downloads
from mikan_gateway.platforms.telegram.places import topic_of
from mikan_gateway.platforms.telegram.updates import UpdateReader
from mikan_gateway.ports import InboundMessage
from servers.telegram.server import BOT
from servers.telegram.user import entities_of

GROUP = {"id": -100123, "type": "supergroup", "title": "Team"}
PRIVATE = {"id": 42, "type": "private", "first_name": "Ann"}
ANN = {"id": 42, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "username": "ann"}
TIME = 1_767_323_045


@pytest.fixture
def reader() -> UpdateReader:
    me = User.de_json(BOT, None)
    assert me is not None
    return UpdateReader(Downloads(Bot("1:x")), me, FixedSettings())


def read(reader: UpdateReader, text: str = "hello", **changes: Any) -> InboundMessage | None:
    """The message of an update with these fields."""
    message = {"message_id": 9, "date": TIME, "chat": PRIVATE, "from": ANN, "text": text, "entities": entities_of(text)}
    return reader.read([Update.de_json({"update_id": 1, "message": message | changes}, None)])


def replied(message_id: int, sender: dict[str, Any] = ANN, **more: Any) -> dict[str, Any]:
    return {"message_id": message_id, "date": TIME, "chat": GROUP, "from": sender, "text": "earlier", **more}


def must(message: InboundMessage | None) -> InboundMessage:
    assert message is not None
    return message


def test_a_private_chat_is_one_session_replies_too(reader: UpdateReader) -> None:
    for message in (must(read(reader)), must(read(reader, reply_to_message=replied(5)))):
        assert message.event.session_key == "42"
        assert message.event.conversation_kind is ConversationKind.DIRECT
        assert message.event.message.thread_id is None
        assert message.triggered
        assert message.top_level


def test_a_group_message_is_a_session_of_its_own(reader: UpdateReader) -> None:
    message = must(read(reader, chat=GROUP))

    assert message.event.session_key == "-100123:9"
    assert message.event.conversation_kind is ConversationKind.SHARED
    assert message.top_level
    assert not message.triggered


def test_a_group_reply_belongs_to_the_message_replied_to(reader: UpdateReader) -> None:
    message = must(read(reader, chat=GROUP, reply_to_message=replied(5)))

    assert message.event.session_key == "-100123:5"
    assert message.event.message.thread_id == "5"
    assert not message.top_level
    assert not message.triggered


def test_a_group_reply_to_the_bot_is_for_the_bot(reader: UpdateReader) -> None:
    message = must(read(reader, chat=GROUP, reply_to_message=replied(5, BOT)))

    assert message.event.session_key == "-100123:5"
    assert message.triggered


def test_in_a_topic_its_beginning_is_no_message_replied_to(reader: UpdateReader) -> None:
    created = replied(3, forum_topic_created={"name": "builds", "icon_color": 1})
    forum = {"chat": {**GROUP, "is_forum": True}, "message_thread_id": 3, "is_topic_message": True}

    first = must(read(reader, **forum, reply_to_message=created))
    reply = must(read(reader, **forum, reply_to_message=replied(5)))

    assert [first.event.session_key, reply.event.session_key] == ["-100123:9", "-100123:5"]
    assert [topic_of(m.event.message.thread_id) for m in (first, reply)] == [3, 3]


@pytest.mark.parametrize("text", ["/new", "/new@mikan_bot", "@mikan_bot hi", "hi @MIKAN_BOT"])
def test_mentions_and_commands_trigger_in_groups(reader: UpdateReader, text: str) -> None:
    assert must(read(reader, text, chat=GROUP)).triggered


@pytest.mark.parametrize("text", ["/new@other_bot", "/unknown", "hi @ann", "hi mikan_bot"])
def test_what_names_somebody_else_or_nobody_does_not(reader: UpdateReader, text: str) -> None:
    assert not must(read(reader, text, chat=GROUP)).triggered


def test_a_message_is_known_again_by_bot_chat_and_id(reader: UpdateReader) -> None:
    message = must(read(reader))

    assert (message.app, message.team, message.event.message.id) == (str(BOT["id"]), "", "9")
    assert message.event.message.time == datetime.fromtimestamp(TIME, UTC)
    assert message.event.message.author.display_name == "Ann Lee"


def test_a_groups_negative_id_makes_an_office_key(reader: UpdateReader) -> None:
    key = office_key(must(read(reader, chat=GROUP)).event.address)

    assert key.startswith("v1-telegram-100123-")


@pytest.mark.parametrize(
    "changes",
    [
        {"chat": {"id": -100, "type": "channel", "title": "News"}},
        {"text": "", "new_chat_members": [ANN]},
        {"text": "", "group_chat_created": True},
    ],
)
def test_channels_and_service_messages_are_not_read(reader: UpdateReader, changes: dict[str, Any]) -> None:
    assert read(reader, **changes) is None


@pytest.mark.parametrize("kind", ["channel_post", "edited_channel_post", "business_message"])
def test_only_messages_to_the_bot_itself_are_read(reader: UpdateReader, kind: str) -> None:
    message = {"message_id": 9, "date": TIME, "chat": PRIVATE, "from": ANN, "text": "hello"}

    assert reader.read([Update.de_json({"update_id": 1, kind: message}, None)]) is None


def test_what_another_bot_says_is_a_bots(reader: UpdateReader) -> None:
    message = must(read(reader, "@mikan_bot hi", chat=GROUP, **{"from": {**ANN, "is_bot": True}}))

    assert message.event.message.author.is_bot
