"""What becomes of every kind of message on Telegram: nobody's is lost for its kind, and none says what it does not."""

from datetime import UTC, datetime
from typing import Any

import pytest
from telegram import Bot, Update, User

from gateway_edges import FixedSettings
from mikan_api.commands import is_magic_stop, parse_command
from mikan_api.identity import Platform
from mikan_api.messaging import TrustModel
from mikan_api.settings import Admission, Settings
from mikan_gateway.admission import Gatekeeper
from mikan_gateway.platforms.telegram.context import MAX_EXCERPT
from mikan_gateway.platforms.telegram.files import Downloads, files_of
from mikan_gateway.platforms.telegram.updates import UpdateReader
from mikan_gateway.ports import InboundMessage
from servers.telegram.server import BOT
from servers.telegram.user import ANONYMOUS, CHANNEL, CHANNEL_BOT, SERVICE, entities_of

GROUP = {"id": -100123, "type": "supergroup", "title": "The Team"}
PRIVATE = {"id": 42, "type": "private", "first_name": "Ann"}
ANN = {"id": 42, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "username": "ann"}
BOB = {"id": 43, "is_bot": False, "first_name": "Bob"}
TIME = 1_767_323_045
FILE = {"file_id": "F1", "file_unique_id": "u1", "file_size": 3}
STICKER = {**FILE, "type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False}
PLACE = {"latitude": 52.52, "longitude": 13.405}
POLL = {
    "id": "1", "question": "Lunch?", "total_voter_count": 0, "is_closed": False, "is_anonymous": True,
    "type": "regular", "allows_multiple_answers": False, "allows_revoting": False, "members_only": False,
    "options": [{"text": t, "voter_count": 0, "persistent_id": t} for t in ("Now", "Later")],
}  # fmt: skip
CHECKLIST = {
    "title": "Release",
    "tasks": [{"id": 1, "text": "tag", "completion_date": TIME}, {"id": 2, "text": "ship"}],
}


def reader(settings: Settings | None = None, **options: Any) -> UpdateReader:
    me = User.de_json(BOT, None)
    assert me is not None
    return UpdateReader(Downloads(Bot("1:x")), me, FixedSettings(settings), **options)


def read(text: str = "", kind: str = "message", by: UpdateReader | None = None, **fields: Any) -> InboundMessage | None:
    """What becomes of a message with these fields."""
    message: dict[str, Any] = {"message_id": 9, "date": TIME, "chat": PRIVATE, "from": ANN}
    if text:
        message |= {"text": text, "entities": entities_of(text)}
    return (by or reader()).read([Update.de_json({"update_id": 7, kind: message | fields}, None)])


def must(message: InboundMessage | None) -> InboundMessage:
    assert message is not None
    return message


def text_of(text: str = "", **fields: Any) -> str:
    return must(read(text, **fields)).event.message.text


def earlier(text: str, sender: dict[str, Any] = BOB, **fields: Any) -> dict[str, Any]:
    """A message that is replied to."""
    return {"reply_to_message": {"message_id": 5, "date": TIME, "chat": GROUP, "from": sender, "text": text, **fields}}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"poll": POLL}, "[Poll: Lunch?]\n- Now\n- Later"),
        ({"checklist": CHECKLIST}, "[Checklist: Release]\n- [x] tag\n- [ ] ship"),
        ({"contact": {"phone_number": "+4930", "first_name": "Bob", "last_name": "May"}}, "[Contact: Bob May, +4930]"),
        ({"location": PLACE}, "[Location: 52.520000, 13.405000]"),
        ({"location": {**PLACE, "live_period": 60}}, "[Location: 52.520000, 13.405000, live]"),
        (
            {"location": PLACE, "venue": {"location": PLACE, "title": "Office", "address": "Main St 1"}},
            "[Place: Office, Main St 1 (52.520000, 13.405000)]",
        ),
        ({"dice": {"emoji": "🎲", "value": 5}}, "[🎲 5]"),
        ({"sticker": {**STICKER, "emoji": "😀"}}, "[Sticker 😀]"),
        ({"sticker": STICKER}, "[Sticker]"),
        ({"voice": {**FILE, "duration": 12}}, "[Voice message, 12 s]"),
        ({"video_note": {**FILE, "duration": 3, "length": 100}}, "[Video message, 3 s]"),
        ({"game": {"title": "Chess", "description": "a game", "photo": []}}, "[Game: Chess]"),
        ({"story": {"chat": CHANNEL, "id": 1}}, "[A story, which bots can't open]"),
        (
            {"paid_media": {"star_count": 5, "paid_media": [{"type": "preview"}]}},
            "[Pictures or videos for 5 stars, which bots can't open]",
        ),
        ({"hologram": {"of": "a cat"}, "aura": 1}, "[Something that I can't read: aura, hologram]"),
    ],
)
def test_what_is_no_text_is_told_in_words(fields: dict[str, Any], words: str) -> None:
    assert text_of(**fields) == words


@pytest.mark.parametrize(
    "fields",
    [
        {"new_chat_title": "x"},
        {"left_chat_member": BOB},
        {"pinned_message": {"message_id": 5, "date": TIME, "chat": GROUP}},
        {"migrate_to_chat_id": -100},
        {"migrate_from_chat_id": -7},
        {"video_chat_started": {}},
    ],
)
def test_service_messages_say_nothing(fields: dict[str, Any]) -> None:
    assert read(chat=GROUP, **fields) is None


@pytest.mark.parametrize(
    ("fields", "file"),
    [
        ({"voice": {**FILE, "duration": 12}}, ("voice.ogg", "audio/ogg")),
        ({"video_note": {**FILE, "duration": 3, "length": 100}}, ("video.mp4", "video/mp4")),
        ({"sticker": STICKER}, ("sticker.webp", "image/webp")),
        ({"sticker": {**STICKER, "is_animated": True}}, ("sticker.tgs", "application/x-tgsticker")),
        ({"sticker": {**STICKER, "is_video": True}}, ("sticker.webm", "video/webm")),
        (
            {"animation": {**FILE, "width": 1, "height": 1, "duration": 1}, "document": {**FILE, "file_name": "a.gif"}},
            ("a.gif", "application/octet-stream"),
        ),
    ],
)
def test_what_can_be_heard_or_seen_comes_as_a_file_too(fields: dict[str, Any], file: tuple[str, str]) -> None:
    message = {"message_id": 9, "date": TIME, "chat": PRIVATE, "from": ANN, **fields}
    update = Update.de_json({"update_id": 1, "message": message}, None)

    assert update.message is not None
    assert [(one.name, one.media_type) for one in files_of(update.message)] == [file]
    assert must(read(**fields)).attachments is not None


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ({"type": "user", "sender_user": BOB}, "Bob"),
        ({"type": "hidden_user", "sender_user_name": "Somebody Shy"}, "Somebody Shy"),
        ({"type": "chat", "sender_chat": GROUP}, "The Team"),
        ({"type": "channel", "chat": CHANNEL, "message_id": 3}, "News"),
    ],
)
@pytest.mark.parametrize("text", ["hello", "stop", "/new"])
def test_a_forward_says_whose_words_they_are_and_is_never_a_command(
    origin: dict[str, Any], name: str, text: str
) -> None:
    said = text_of(text, forward_origin={"date": TIME, **origin})

    assert said == f"[Forwarded from {name}]\n{text}"
    assert parse_command(said) is None
    assert not is_magic_stop(said)


def test_a_reply_in_a_private_chat_says_which_message_is_meant() -> None:
    assert (
        text_of("and this?", **earlier("first line\nsecond", BOT)) == "You wrote:\n> first line\n> second\n\nand this?"
    )
    assert text_of("and this?", **earlier("mine", ANN)) == "Ann Lee wrote:\n> mine\n\nand this?"
    assert text_of("what is it?", **earlier("", BOB, dice={"emoji": "🎲", "value": 5})) == (
        "Bob wrote:\n> [🎲 5]\n\nwhat is it?"
    )


def test_a_long_message_that_is_replied_to_is_cut() -> None:
    assert text_of("?", **earlier("x" * 2_000)) == f"Bob wrote:\n> {'x' * MAX_EXCERPT}…\n\n?"


def test_in_a_group_what_somebody_else_wrote_is_said_and_what_the_session_has_is_not() -> None:
    assert text_of("@mikan_bot why?", chat=GROUP, **earlier("it broke")) == "Bob wrote:\n> it broke\n\nwhy?"
    assert text_of("why?", chat=GROUP, **earlier("it broke", BOT)) == "why?"
    assert text_of("why?", chat=GROUP, **earlier("it broke", ANONYMOUS, sender_chat=GROUP)) == (
        "The Team wrote:\n> it broke\n\nwhy?"
    )


@pytest.mark.parametrize("chat", [PRIVATE, GROUP])
def test_a_part_that_somebody_chose_to_quote_is_said_whole(chat: dict[str, Any]) -> None:
    quote = {"text": "the middle", "position": 4, "is_manual": True}

    assert text_of("why?", chat=chat, quote=quote, **earlier("not the middle of it", BOT)) == (
        "You wrote:\n> the middle\n\nwhy?"
    )


def test_a_reply_to_another_chats_message_says_so() -> None:
    origin = {"type": "channel", "date": TIME, "chat": CHANNEL, "message_id": 3}
    quote = {"text": "rates rose", "position": 0}

    assert text_of("true?", external_reply={"origin": origin}, quote=quote) == (
        "News, in another chat, wrote:\n> rates rose\n\ntrue?"
    )
    assert text_of("true?", external_reply={"origin": origin}) == (
        "[In reply to a message of News, in another chat]\n\ntrue?"
    )


@pytest.mark.parametrize("text", ["stop", "/stop", "/new", "/pi-model x", "session", "/weather today"])
def test_a_command_stays_one_whatever_it_replies_to(text: str) -> None:
    assert text_of(text, **earlier("something")) == text


def test_an_anonymous_admin_is_the_group() -> None:
    message = must(read("@mikan_bot hi", chat=GROUP, sender_chat=GROUP, author_signature="boss", **{"from": ANONYMOUS}))
    author = message.event.message.author

    assert (author.id, author.user_name, author.display_name) == ("-100123", "The_Team", "The Team (boss)")
    assert not author.is_bot
    assert message.triggered
    here = Settings(admission={Platform.TELEGRAM: Admission(conversations=("-100123",))})
    assert Gatekeeper(FixedSettings(here)).admits(message)
    people = Settings(admission={Platform.TELEGRAM: Admission(users=("42",))})
    assert not Gatekeeper(FixedSettings(people)).admits(message)


def test_who_writes_as_a_channel_is_that_channel() -> None:
    author = must(read("hi", chat=GROUP, sender_chat=CHANNEL, **{"from": CHANNEL_BOT})).event.message.author

    assert (author.id, author.user_name, author.display_name, author.is_bot) == ("-100999", "news", "News", False)


def test_a_linked_channels_post_is_the_channels_and_no_forward() -> None:
    origin = {"type": "channel", "date": TIME, "chat": CHANNEL, "message_id": 3}
    fields = {"from": SERVICE, "sender_chat": CHANNEL, "is_automatic_forward": True, "forward_origin": origin}
    message = must(read("rates rose", chat=GROUP, **fields))

    assert message.event.message.text == "rates rose"
    assert message.event.message.author.id == "-100999"
    assert not message.triggered


def test_an_edit_is_noted_and_never_acted_on() -> None:
    edit = must(read("stop", kind="edited_message", edit_date=TIME + 60))

    assert edit.only_noted
    assert edit.attachments is None
    assert edit.event.message.id == "9-edited-7"
    assert edit.event.message.text == "[Edited message 9] stop"
    assert edit.event.message.time == datetime.fromtimestamp(TIME + 60, UTC)
    assert not is_magic_stop(edit.event.message.text)


def test_a_live_location_that_moves_is_no_edit_worth_noting() -> None:
    assert read(kind="edited_message", location={**PLACE, "live_period": 60}) is None


def test_an_album_is_one_message_with_its_captions() -> None:
    def part(number: int, **fields: Any) -> Update:
        photo = [{**FILE, "file_id": f"F{number}", "width": 1, "height": 1}]
        message = {"message_id": number, "date": TIME, "chat": GROUP, "from": ANN, "photo": photo, **fields}
        return Update.de_json({"update_id": number, "message": message}, None)

    caption = "@mikan_bot which is best?"
    mention = {"caption": caption, "caption_entities": entities_of(caption)}
    message = must(reader().read([part(7), part(8, **mention), part(9, caption="the last")]))

    assert message.event.message.id == "7"
    assert message.event.message.text == "which is best?\n\nthe last"
    assert message.triggered
    assert message.event.session_key == "-100123:7"


def test_a_group_that_became_a_supergroup_stays_the_conversation_that_it_was() -> None:
    moved = {"by": reader(Settings(admission=_listed("-77")), conversation={-100123: "-77"}.get), "chat": GROUP}
    message = must(read("@mikan_bot hi", **moved))
    reply = must(read("and?", **moved, **earlier("it broke", BOT)))

    assert message.event.conversation_id == "-77"
    # Its messages count from 1 again: the chat is part of what tells them apart.
    assert message.event.message.id == "9.100123"
    assert message.event.session_key == "-77:9.100123"
    assert reply.event.session_key == "-77:5.100123"
    assert reply.event.message.thread_id == "5.100123"
    assert message.info.trust_model is TrustModel.MEMBERSHIP


@pytest.mark.parametrize("listed", ["-77", "-100123"])
def test_it_is_let_in_by_either_id(listed: str) -> None:
    settings = Settings(admission=_listed(listed))
    message = must(read("hi", by=reader(settings, conversation={-100123: "-77"}.get), chat=GROUP))

    assert Gatekeeper(FixedSettings(settings)).admits(message)
    assert message.info.trust_model is TrustModel.MEMBERSHIP


def _listed(conversation: str) -> dict[Platform, Admission]:
    return {Platform.TELEGRAM: Admission(conversations=(conversation,))}
