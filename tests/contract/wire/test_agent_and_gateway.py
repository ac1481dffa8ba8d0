"""The real agent and the gateway's real durable path, on both ends of the wire."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_peers.models import Answer, Hold, ModelsPeer, Text, say
from agent_peers.office import ADDRESS, serving, workspace_in
from gateway_doubles import KEY, inbound
from gateway_server import Gateway
from mikan_api.responder import Respond, RunFinished, RunOutcome
from mikan_api.session_keys import SessionKey
from mikan_api.tokens import issue_token

ROOM = ADDRESS.conversation_id
NEW = inbound(ROOM, "new", "/new")


@dataclass
class World:
    """A gateway with a database of its own, and an agent's directory."""

    root: Path
    gateway: Gateway

    @property
    def url(self) -> str:
        """Where the gateway listens."""
        return f"http://127.0.0.1:{self.gateway.server.port}"

    async def ask(self, message_id: str, text: str) -> None:
        """A person writes."""
        submitted = await self.gateway.runtime.submit(inbound(ROOM, message_id, text), True)
        assert submitted.run_id is not None

    async def chatter(self, message_id: str, text: str) -> None:
        """A person writes, but not to us."""
        await self.gateway.runtime.submit(inbound(ROOM, message_id, text), False)

    async def post(self, message_id: str, text: str, session_key: SessionKey) -> None:
        """What we posted for a session has been shown."""
        message = inbound(ROOM, message_id, text).event.message.model_copy(update={"session_key": session_key})
        await self.gateway.runtime.log_posted(ADDRESS.key, message)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until people see something."""
        async with asyncio.timeout(20):
            while not condition():
                self.gateway.output.news.clear()
                await self.gateway.output.news.wait()

    def said(self) -> list[str]:
        """Every answer that people saw."""
        return [o.text for o in self.gateway.output.operations if isinstance(o, Respond)]

    def ends(self) -> list[RunOutcome]:
        """How runs ended."""
        return [o.outcome for o in self.gateway.output.operations if isinstance(o, RunFinished)]

    def log_lines(self) -> list[str]:
        """The office's copy of the platform log."""
        return Path(workspace_in(self.root).office(ADDRESS).log).read_text().splitlines()

    def give_token(self) -> None:
        """What the operator does: the office's token, as a file."""
        claims = self.gateway.offices.claims(ADDRESS.key)
        (self.root / "tokens" / "gateway").write_text(issue_token(KEY, "gateway", claims))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Set up, with the office there already."""
    (tmp_path / "state").mkdir()
    gateway = Gateway(f"sqlite+aiosqlite:///{tmp_path}/state/mikan.db", tmp_path / "state" / "spool")
    await gateway.start()
    gateway.office(ROOM)
    yield World(tmp_path, gateway)
    await gateway.stop()


async def test_messages_are_answered_in_order_and_logged(world: World) -> None:
    async with ModelsPeer(say("one"), say("two")) as models, serving(world.root, world.url, models.url):
        world.give_token()
        await world.ask("m1", "first")
        await world.ask("m2", "second")
        await world.until(lambda: len(world.ends()) == 2)
    assert world.said() == ["one", "two"]
    assert world.ends() == [RunOutcome.COMPLETED, RunOutcome.COMPLETED]
    assert [m["messages"][-1]["content"] for m in models.requests] == ["first", "second"]
    assert len(world.log_lines()) == 2


async def test_a_stop_reaches_the_run(world: World) -> None:
    async with (
        ModelsPeer(Answer([Text("half "), hold := Hold()])) as models,
        serving(world.root, world.url, models.url),
    ):
        world.give_token()
        await world.ask("m1", "first")
        await hold.reached.wait()
        await world.until(lambda: bool(world.gateway.output.deltas))
        await world.gateway.runtime.stop(ADDRESS.key, SessionKey(ROOM), True)
        await world.until(lambda: bool(world.ends()))
    assert world.ends() == [RunOutcome.STOPPED]
    assert world.said() == ["half"]


async def test_a_reset_begins_a_fresh_session(world: World) -> None:
    async with ModelsPeer(say("one"), say("two")) as models, serving(world.root, world.url, models.url):
        world.give_token()
        await world.ask("m1", "first")
        await world.until(lambda: len(world.ends()) == 1)
        await world.gateway.runtime.reset(NEW.event, NEW.info)
        await world.ask("m2", "second")
        await world.until(lambda: len(world.ends()) == 2)
    assert [m["content"] for m in models.requests[1]["messages"][1:]] == ["second"]


async def test_the_next_agent_goes_on_with_the_session(world: World) -> None:
    async with ModelsPeer(say("one"), say("two")) as models:
        for number, text in enumerate(["first", "second"], start=1):
            async with serving(world.root, world.url, models.url):
                world.give_token()
                await world.ask(f"m{number}", text)
                await world.until(lambda wanted=number: len(world.ends()) == wanted)  # type: ignore[misc]
            await world.gateway.gone()
    assert [m["content"] for m in models.requests[1]["messages"][1:]] == ["first", "one", "second"]


async def test_what_nobody_asked_about_is_told_once_and_our_own_answers_are_not(world: World) -> None:
    async with ModelsPeer(say("one"), say("two"), say("three")) as models:
        async with serving(world.root, world.url, models.url):
            world.give_token()
            await world.ask("m1", "first")
            await world.until(lambda: len(world.ends()) == 1)
            await world.post("p1", "one", SessionKey(ROOM))
            await world.post("p2", "the report", SessionKey(f"{ROOM}:m9"))
            await world.chatter("m2", "lunch?")
            await world.ask("m3", "second")
            await world.until(lambda: len(world.ends()) == 2)
        await world.gateway.gone()
        async with serving(world.root, world.url, models.url):
            world.give_token()
            await world.ask("m4", "third")
            await world.until(lambda: len(world.ends()) == 3)
    contents = [str(m["content"]) for m in models.requests[2]["messages"][1:]]
    told = [line.split(": ", 1)[1] for line in contents[2].splitlines()[1:]]
    assert (told, contents[:2], contents[3:]) == (
        ["the report", "lunch?"],
        ["first", "one"],
        ["second", "two", "third"],
    )


async def test_a_reset_of_a_sleeping_office_leaves_what_was_written_before_it_behind(world: World) -> None:
    await world.chatter("m1", "before")
    await world.gateway.runtime.reset(NEW.event, NEW.info)
    await world.chatter("m2", "after")
    await world.ask("m3", "first")
    async with ModelsPeer(say("one")) as models, serving(world.root, world.url, models.url):
        world.give_token()
        await world.until(lambda: len(world.ends()) == 1)
    told, asked = [str(m["content"]) for m in models.requests[0]["messages"][1:]]
    assert ([line.split(": ", 1)[1] for line in told.splitlines()[1:]], asked) == (["after"], "first")
