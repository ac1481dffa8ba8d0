"""`mikan chat` against a real console."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from console_world import TOKEN, ConsoleWorld
from mikan_api.exceptions import InvalidValue
from mikan_cli import console as console_module
from mikan_cli.chat import Chat, Person
from mikan_cli.console import Console, FixedUrl
from mikan_cli.display import PlainDisplay
from mikan_cli.exceptions import ConsoleRefused, ConsoleUnreachable, NoAnswer
from mikan_gateway.exceptions import ClusterError
from mikan_gateway.ports import InboundMessage, Target

Reply = Callable[[Target], Awaitable[None]]


class Terminal:
    """A chat whose output a test reads."""

    def __init__(
        self, world: ConsoleWorld, *, token: str = TOKEN, timeout: float = 10, save: Path | None = None
    ) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.console = Console(FixedUrl(world.url), token, "C1")
        display = PlainDisplay(self.out, self.err)
        self.chat = Chat(self.console, Person("ann", "Ann"), display, timeout, save)
        self._world = world

    async def say(self, text: str, reply: Reply | None = None, **options: list[Path]) -> None:
        """Say something while the bot does ``reply``."""
        answering = asyncio.create_task(self._answer(reply)) if reply else None
        await self.chat.say(text, options.get("attach", ()))
        if answering:
            await answering

    async def _answer(self, reply: Reply) -> None:
        message = await self._world.intake.next()
        await reply(Target("C1", None, message.event.message.id))


@pytest.fixture
async def terminal(world: ConsoleWorld, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Terminal]:
    monkeypatch.setattr(console_module, "RETRY_SECONDS", 0.02)
    terminal = Terminal(world)
    yield terminal
    await terminal.console.close()


async def test_the_answer_is_printed_when_all_of_it_is_there(world: ConsoleWorld, terminal: Terminal) -> None:
    async def reply(target: Target) -> None:
        message_id = await world.platform.post(target, "⚙ `bash: ls`", "n1")
        await asyncio.sleep(0.1)
        await world.platform.edit(target, message_id, "⚙ `bash: pwd`", draft=True)
        await asyncio.sleep(0.1)
        await world.platform.edit(target, message_id, "It is 4.")
        await world.platform.post(target, "Second part.", "n2")
        await world.platform.set_working(target, False)

    await terminal.say("what is it?", reply)

    assert terminal.out.getvalue() == "It is 4.\n\nSecond part.\n"
    assert terminal.err.getvalue() == "⚙ `bash: ls`\n⚙ `bash: pwd`\n"


async def test_stop_is_said_while_an_answer_is_under_way(world: ConsoleWorld, terminal: Terminal) -> None:
    async def reply(target: Target) -> None:
        message_id = await world.platform.post(target, "half", "n1")
        await terminal.chat.stop()
        await world.platform.edit(target, message_id, "half\n\n_(Stopped.)_")
        await world.platform.set_working(target, False)

    await terminal.say("count", reply)

    assert [m.event.message.text for m in world.intake.messages] == ["count", "stop"]
    assert terminal.out.getvalue() == "half\n\n_(Stopped.)_\n"


async def test_what_answers_others_is_not_shown(world: ConsoleWorld, terminal: Terminal) -> None:
    async def reply(target: Target) -> None:
        other = Target("C1", None, "somebody-else")
        await world.platform.post(other, "not yours", "n1")
        await world.platform.set_working(other, False)
        await world.platform.post(target, "yours", "n2")
        await world.platform.set_working(target, False)

    await terminal.say("hi", reply)

    assert terminal.out.getvalue() == "yours\n"


async def test_events_of_before_are_not_shown(world: ConsoleWorld, terminal: Terminal) -> None:
    await world.platform.post(Target("C1"), "old", "n0")

    async def reply(target: Target) -> None:
        await world.platform.post(target, "new", "n1")
        await world.platform.set_working(target, False)

    await terminal.say("hi", reply)

    assert terminal.out.getvalue() == "new\n"


async def test_a_message_that_was_deleted_is_not_printed(world: ConsoleWorld, terminal: Terminal) -> None:
    async def reply(target: Target) -> None:
        await world.platform.delete(target, await world.platform.post(target, "_Working…_", "n1"))
        await world.platform.set_working(target, False)

    await terminal.say("hi", reply)

    assert terminal.out.getvalue() == ""


async def test_no_answer_in_time_is_an_error_and_shows_what_there_was(world: ConsoleWorld) -> None:
    terminal = Terminal(world, timeout=0.5)

    async def reply(target: Target) -> None:
        await world.platform.post(target, "half", "n1")

    with pytest.raises(NoAnswer, match=r"within 0\.5 s"):
        await terminal.say("hi", reply)
    assert terminal.out.getvalue() == "half\n"
    await terminal.console.close()


async def test_a_gateway_that_restarts_loses_and_doubles_nothing(world: ConsoleWorld, terminal: Terminal) -> None:
    async def reply(target: Target) -> None:
        message_id = await world.platform.post(target, "half", "n1")
        await world.restart()
        await world.platform.edit(target, message_id, "whole")
        await world.platform.set_working(target, False)

    await terminal.say("hi", reply)

    assert terminal.out.getvalue() == "whole\n"
    assert len(world.intake.messages) == 1


async def test_a_message_is_sent_again_until_it_is_taken(world: ConsoleWorld, terminal: Terminal) -> None:
    world.intake.failures = [ClusterError("away"), ClusterError("away")]

    async def reply(target: Target) -> None:
        await world.platform.post(target, "at last", "n1")
        await world.platform.set_working(target, False)

    await terminal.say("hi", reply)

    assert terminal.out.getvalue() == "at last\n"
    assert len(world.intake.messages) == 1


async def test_control_characters_of_an_answer_do_not_reach_the_terminal(
    world: ConsoleWorld, terminal: Terminal
) -> None:
    async def reply(target: Target) -> None:
        await world.platform.post(target, "a\x1b[2Jb\x9b1mc\u202ed\n\te", "n1")
        await world.platform.set_working(target, False)

    await terminal.say("hi", reply)

    assert terminal.out.getvalue() == "a[2Jb1mcd\n\te\n"


async def test_a_file_is_saved_under_a_name_of_its_own(world: ConsoleWorld, tmp_path: Path) -> None:
    save = tmp_path / "save"
    save.mkdir()
    (save / "report.txt").write_text("mine")
    (tmp_path / "source").write_text("theirs")
    terminal = Terminal(world, save=save)

    async def reply(target: Target) -> None:
        await world.platform.upload(target, tmp_path / "source", "../report.txt", "Report", "n1")
        await world.platform.set_working(target, False)

    await terminal.say("hi", reply)
    await terminal.console.close()

    assert {path.name: path.read_text() for path in save.iterdir()} == {
        "report.txt": "mine",
        "report-1.txt": "theirs",
    }


async def test_attached_files_go_before_the_message(world: ConsoleWorld, terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("bytes")
    received: list[InboundMessage] = []

    async def reply(target: Target) -> None:
        received.extend(world.intake.messages)
        await world.platform.set_working(target, False)

    await terminal.say("look", reply, attach=[tmp_path / "a.txt"])

    [attachment] = await world.attachments(received[0])
    assert (attachment.original_name, attachment.size, attachment.error) == ("a.txt", 5, None)


async def test_somebody_who_is_turned_away_is_told(
    world: ConsoleWorld, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mikan_cli.chat.TURNED_AWAY_SECONDS", 0.1)
    world.intake.turn_away = True

    with pytest.raises(ConsoleRefused, match="does not let 'ann' in"):
        await terminal.say("hi")


async def test_a_wrong_token_is_named(world: ConsoleWorld) -> None:
    terminal = Terminal(world, token="wrong")

    with pytest.raises(ConsoleRefused, match="does not accept this token"):
        await terminal.say("hi")
    await terminal.console.close()


async def test_a_console_that_is_not_there_is_named(world: ConsoleWorld, terminal: Terminal) -> None:
    await world.platform.stop()

    with pytest.raises(ConsoleUnreachable, match="can't be reached"):
        await terminal.say("hi")


def test_a_conversation_that_no_office_can_have_is_refused() -> None:
    with pytest.raises(InvalidValue):
        Console(FixedUrl("http://127.0.0.1:1"), TOKEN, "a/b")
