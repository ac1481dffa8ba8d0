"""Killed around every call of Telegram: what people there see, and how small the window is that Telegram leaves.

Gateway and agent are real processes; what a chat shows is told by the double of the Bot API.
"""

from collections.abc import Awaitable, Callable, Mapping

import pytest

from durability_agent import PICTURE, REPORT
from durability_fixtures import NewWorld
from durability_world import DurableWorld
from kill_places import TELEGRAM, step_of
from mikan_api.kill_points import Step
from servers.telegram.server import TelegramServer
from servers.telegram.user import Chat
from supervised import KILLED

Scene = Callable[[DurableWorld, Chat], Awaitable[list[str]]]
"""Plays until the place is reached; what is to stand in the chat then."""


async def slowly(world: DurableWorld, ann: Chat) -> list[str]:
    ann.send("slowly now")
    await world.wake()
    return ["You said: slowly now"]


async def silently(world: DurableWorld, ann: Chat) -> list[str]:
    """An answer without text takes the placeholder away."""
    ann.send("silently")
    await world.wake()
    return []


async def bring_a_file(world: DurableWorld, ann: Chat) -> list[str]:
    ann.send_file("notes.txt", b"notes", caption="look at this")
    await world.wake()
    return ["You said: look at this"]


async def send_a_file(world: DurableWorld, ann: Chat) -> list[str]:
    ann.send("attach it")
    await world.wake()
    return [REPORT, "done"]


async def send_a_picture(world: DurableWorld, ann: Chat) -> list[str]:
    ann.send("depict it")
    await world.wake()
    return [PICTURE, "done"]


SCENES: Mapping[Step, Scene] = {
    Step.TELEGRAM_GET_FILE: bring_a_file,
    Step.TELEGRAM_DOWNLOAD: bring_a_file,
    Step.TELEGRAM_SEND_DOCUMENT: send_a_file,
    Step.TELEGRAM_SEND_PHOTO: send_a_picture,
    Step.TELEGRAM_DELETE_MESSAGE: silently,
}
"""How a step is reached; those that are not named are in `slowly`."""
MORE = [
    # The poll that tells Telegram of what was taken, and the ones of the library's own parts.
    f"{Step.TELEGRAM_GET_UPDATES}.before:2",
    f"{Step.MESSAGE_ACKNOWLEDGE}.before",
    *(
        f"{step}.{side}"
        for step in (
            Step.MESSAGE_COMMIT,
            Step.RUN_SEND,
            Step.REPORT_COMMIT,
            Step.INTENT_COMMIT,
            Step.SENT_COMMIT,
            Step.POSTED_COMMIT,
            Step.SHOWN_COMMIT,
        )
        for side in ("before", "after")
    ),
]
"""Places that the console has too, where Telegram's calls fall between others."""
WINDOW = {
    f"{Step.TELEGRAM_SEND_MESSAGE}.after",
    f"{Step.TELEGRAM_SEND_DOCUMENT}.after",
    f"{Step.TELEGRAM_SEND_PHOTO}.after",
    f"{Step.SENT_COMMIT}.before",
}
"""Between Telegram's answer to a first send and the commit that keeps it: that message stands twice, or its draft."""


def seen(ann: Chat) -> list[str]:
    """The bot's messages, files by their names."""
    return [message.file.name if message.file else message.text for message in ann.answers]


@pytest.mark.parametrize("point", [*TELEGRAM, *MORE])
async def test_a_message_is_answered_once_or_its_cut_is_told_once(
    new_world: NewWorld, telegram: TelegramServer, point: str
) -> None:
    async with new_world(telegram=telegram).running(point) as world:
        ann = telegram.private(int(world.address.conversation_id))
        scene = SCENES.get(step_of(point), slowly)
        expected = await scene(world, ann)
        await world.killed()

        ann.send("goodbye")
        await ann.answered("You said: goodbye")
        assert world.deaths == [KILLED], world.log

    left = [text for text in seen(ann) if text != "You said: goodbye"]
    if point not in WINDOW:
        # A file stands above the answer's text, or below where a placeholder was there before it.
        assert sorted(left) == sorted(expected)
    for text in expected:
        left.remove(text)
    assert len(left) <= 1
