"""Who is not listed gets one polite answer, and no office."""

from mikan_api.identity import Platform
from mikan_api.settings import Admission, Settings
from mikan_gateway.intake import TURNED_AWAY
from servers.telegram.server import TelegramServer
from telegram_world import Start


async def test_a_stranger_is_told_once_and_gets_no_office(telegram: TelegramServer, start: Start) -> None:
    settings = Settings(admission={Platform.TELEGRAM: Admission(users=("42",))})
    gateway = await start(settings=settings)
    ann, eve = telegram.private(42), telegram.private(66, "Eve", "eve")

    eve.send("hello")
    eve.send("hello?")
    eve.send("stop")
    ann.send("hello")

    await ann.answered("You said: hello")
    await eve.answered(TURNED_AWAY)
    assert eve.texts == [TURNED_AWAY]
    assert [view.address.conversation_id for view in gateway.offices.views.values()] == ["42"]


async def test_nobody_is_let_in_by_default(telegram: TelegramServer, start: Start) -> None:
    gateway = await start(settings=Settings())
    ann = telegram.private(42)

    ann.send("hello")

    await ann.answered(TURNED_AWAY)
    assert gateway.offices.views == {}


async def test_a_stranger_in_a_group_who_talks_with_others_is_left_alone(
    telegram: TelegramServer, start: Start
) -> None:
    settings = Settings(admission={Platform.TELEGRAM: Admission(users=("42",))})
    await start(settings=settings)
    group = telegram.people.group(1, telegram.people.person(66, "Eve", "eve"))
    ann = group.seen_by(telegram.people.person(42))

    group.send("hello all")
    ann.send("@mikan_bot hello")

    await ann.answered("You said: hello")
    assert len(group.answers) == 1
