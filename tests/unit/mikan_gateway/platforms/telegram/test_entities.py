"""What people wrote, with offsets in UTF-16 units."""

import pytest
from telegram import MessageEntity, User

from mikan_gateway.platforms.telegram.entities import read_text
from servers.telegram.user import entities_of

BOT = User(7, "mikan", is_bot=True, username="mikan_bot")


@pytest.mark.parametrize(
    ("written", "read", "addressed"),
    [
        ("hello", "hello", False),
        ("@mikan_bot hello", "hello", True),
        ("@MIKAN_BOT", "", True),
        ("hello @mikan_bot", "hello", True),
        ("😀😀 @mikan_bot and @ann 😀", "😀😀 and <@ann> 😀", True),
        ("@mikan_bot_other hello", "<@mikan_bot_other> hello", False),
        ("/new", "/new", True),
        ("/NEW@Mikan_Bot now", "/NEW now", True),
        ("/auto_reply on", "/auto-reply on", True),
        ("/pi_model openai/x_y", "/pi-model openai/x_y", True),
        ("/stop@mikan_bot", "/stop", True),
        ("/stop@other_bot", "/stop@other_bot", False),
        ("/weather", "/weather", False),
        ("/my_own@mikan_bot x", "/my_own x", True),
        ("see /new", "see /new", False),
        ("mail ann@example.org", "mail ann@example.org", False),
    ],
)
def test_mentions_and_commands_are_read(written: str, read: str, addressed: bool) -> None:
    entities = [MessageEntity(**entity) for entity in entities_of(written)]

    found = read_text(written, entities, BOT)

    assert (found.text, found.addressed) == (read, addressed)


def test_a_mention_chosen_from_the_list_names_a_user_without_a_name() -> None:
    eve = MessageEntity("text_mention", 3, 3, user=User(66, "Eve", is_bot=False))

    assert read_text("hi Eve!", [eve], BOT).text == "hi <@66>!"


def test_entities_that_overlap_or_lie_outside_change_nothing() -> None:
    entities = [MessageEntity("mention", 0, 4), MessageEntity("mention", 2, 4), MessageEntity("mention", 50, 4)]

    assert read_text("@ann hello", entities, BOT).text.startswith("<@ann> hello")
