"""Each link between two processes is cut, reset, slowed down, and broken off in the middle of a frame.

All processes are real: gateway, agent and models process, Postgres, and the doubles of Telegram and of a model's
upstream at the ends. Between any two of them is a proxy (Toxiproxy). The verdict is what a person on Telegram sees:
every message is answered exactly once and in order, or told of honestly; what is down is named by ``/readyz``
meanwhile; everything works again soon after the link does, by itself, and nothing has leaked.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from census import Census
from durability_agent import PATIENT_VARIABLE, REPORT
from durability_fixtures import NewWorld
from durability_world import DurableWorld
from mikan_gateway.rendering.renderer import CUT_OFF
from postgres import postgres_server
from servers.telegram.server import TelegramServer
from servers.telegram.user import Chat
from toxiproxy import Link, Toxiproxy, toxiproxy

pytestmark = pytest.mark.timeout(300)

LINKS = ["agent-gateway", "agent-models", "models-upstream", "gateway-telegram", "gateway-postgres"]
NAMED = {"gateway-telegram": (200, "platform-telegram"), "gateway-postgres": (503, "database")}
"""What ``/readyz`` says of a link that is down: status and part. Of the others the gateway has nothing to say."""
SOON = 12.0
"""Seconds within which everything works again."""
PATIENCE = 90.0
"""Seconds until something that must come is given up."""
HELD = 5.0
"""Seconds for which a link is bad."""
LIMITS = [1, 90, 400, 1_000, 3_000, 9_000]
"""Bytes after which a connection is cut: before, in and after handshakes, heads, frames and bodies."""
Harm = Callable[[Link], Awaitable[None]]


class Proxied:
    """A network in which every link has a proxy."""

    def __init__(self, server: Toxiproxy) -> None:
        self._server = server
        self.links: dict[str, Link] = {}

    async def link(self, name: str, port: int) -> int:
        self.links[name] = await self._server.link(name, port)
        return self.links[name].port


class Conversation:
    """A person on Telegram, and the processes that serve them."""

    def __init__(self, world: DurableWorld, ann: Chat, links: dict[str, Link]) -> None:
        self.world, self.ann, self.links = world, ann, links
        self.expected = ["You said: hello"]
        self._before: list[Census] = []

    async def begin(self) -> None:
        """A first message, so that all are connected; then count what they have open."""
        self.ann.send("hello")
        await self.world.wake()
        await self.ann.answered("You said: hello")
        await asyncio.sleep(1.5)
        self._before = await self._count()

    async def ask(self) -> None:
        """Messages that need every way there is: streamed text, a file that comes in, a file that goes out."""
        self.ann.send_file("notes.txt", b"notes " * 500, caption="two")
        self.ann.send("attach three")
        self.expected += ["You said: two", REPORT, "done"]

    async def ask_slowly(self) -> None:
        """One whose answer is on its way when this returns."""
        self.ann.send("slowly one")
        await self.ann.until(lambda chat: any(text.startswith("You") for text in chat.texts[1:]), PATIENCE)
        self.expected.append("You said: slowly one")

    async def named_down(self, link: str) -> None:
        """Wait until ``/readyz`` names what is down, and see that it names nothing else."""
        status, part = NAMED[link]
        async with asyncio.timeout(HELD + 5):
            while (found := await self.world.parts()).keys() != {"status", part}:  # noqa: ASYNC110  nothing tells it
                await asyncio.sleep(0.1)
        assert found["status"] == status

    async def noticed(self, link: str, seconds: float) -> None:
        """Wait until a silent link is given up, as told by who uses it, or where people or admins see it."""
        log = len(self.world.lines)

        async def told() -> bool:
            if link in NAMED:
                return NAMED[link][1] in await self.world.parts()
            if link == "agent-gateway":
                said = {line["message"].partition(":")[0] for line in self.world.lines[log:]}
                return {"agent disconnected", "the gateway closed the connection"} <= said
            return any("the model did not answer; trying again" in text for text in self.ann.texts)

        async with asyncio.timeout(seconds):
            while not await told():  # noqa: ASYNC110  nothing tells it
                await asyncio.sleep(0.2)

    async def nothing_down(self) -> None:
        """See that ``/readyz`` names nothing."""
        assert await self.world.parts() == {"status": 200}

    async def recovered(self, seconds: float = SOON) -> None:
        """All is answered within a time, and nothing is left of the trouble."""
        began = time.monotonic()
        self.ann.send("last")
        self.expected.append("You said: last")
        await self.ann.until(lambda chat: "You said: last" in chat.texts, PATIENCE)
        took = time.monotonic() - began
        print(f"recovered after {took:.1f} s")
        assert took <= seconds, self.world.log
        async with asyncio.timeout(5):
            while (await self.world.parts()) != {"status": 200}:  # noqa: ASYNC110  nothing tells it
                await asyncio.sleep(0.1)
        assert self.world.deaths == [], self.world.log

    def seen(self) -> list[str]:
        """The bot's messages, files by their names."""
        return [message.file.name if message.file else message.text for message in self.ann.answers]

    def answered_once(self) -> None:
        """Everything stands once, in order; of a file and the text that goes with it either may come first."""
        assert _settled(self.seen()) == _settled(self.expected), self.world.log

    def answered(self) -> None:
        """The same, but that a first send of which Telegram's answer was lost may stand twice, or its draft."""
        first = list(dict.fromkeys(text for text in self.seen() if text in self.expected))
        assert _settled(first) == _settled(self.expected), self.world.log
        others = [text for text in self.seen() if text not in self.expected]
        assert all(any(whole.startswith(text) for whole in self.expected) for text in others), others
        assert len(self.seen()) <= 2 * len(self.expected)

    async def leaked_nothing(self) -> None:
        """No process has more tasks or descriptors than before."""
        end = time.monotonic() + 10
        while True:
            after = await self._count()
            grown = [
                (one.tasks, other.tasks, one.descriptors, other.descriptors)
                for one, other in zip(self._before, after, strict=True)
                if sum(other.tasks.values()) > sum(one.tasks.values()) or other.descriptors > one.descriptors + 6
            ]
            if not grown:
                return
            assert time.monotonic() < end, grown
            await asyncio.sleep(0.5)

    async def _count(self) -> list[Census]:
        return [await self.world.census(process) for process in (self.world.gateway, self.world.agent)]


def _settled(texts: Sequence[str]) -> list[str]:
    pair = {REPORT, "done"}
    return [" ".join(sorted(pair)) if text in pair else text for text in texts]


@pytest.fixture
async def converse(new_world: NewWorld) -> AsyncIterator[Conversation]:
    """A conversation that has begun, and whose links are all healthy."""
    async with toxiproxy() as server, TelegramServer() as telegram:
        network = Proxied(server)
        world = new_world(
            telegram=telegram,
            models_process=True,
            network=network,
            database_url=postgres_server().create_database(),
            agent={PATIENT_VARIABLE: "1"},
        )
        async with world.running():
            ann = telegram.private(int(world.address.conversation_id))
            conversation = Conversation(world, ann, network.links)
            await conversation.begin()
            yield conversation


async def down(link: Link) -> None:
    await link.down()


async def reset(link: Link) -> None:
    await link.poison("reset_peer", timeout=0)


@pytest.mark.parametrize("harm", [down, reset])
@pytest.mark.parametrize("name", LINKS)
async def test_a_link_that_breaks_loses_and_doubles_nothing(converse: Conversation, name: str, harm: Harm) -> None:
    await converse.ask_slowly()
    await harm(converse.links[name])
    await converse.ask()
    if name in NAMED:
        await converse.named_down(name)
    await asyncio.sleep(HELD)
    await converse.links[name].heal()

    await converse.recovered()
    converse.answered() if name == "gateway-telegram" else converse.answered_once()
    await converse.leaked_nothing()


@pytest.mark.parametrize("name", LINKS)
async def test_a_connection_cut_in_the_middle_of_what_it_carries(converse: Conversation, name: str) -> None:
    for limit in LIMITS:
        await converse.links[name].poison("limit_data", bytes=limit)
        converse.ann.send(f"slowly {limit}")
        converse.expected.append(f"You said: slowly {limit}")
        await asyncio.sleep(2)
        await converse.links[name].heal()
        await converse.ann.until(lambda chat, n=limit: f"You said: slowly {n}" in chat.texts, PATIENCE)

    await converse.recovered()
    converse.answered() if name == "gateway-telegram" else converse.answered_once()
    await converse.leaked_nothing()


@pytest.mark.parametrize(("kind", "attributes"), [("latency", {"latency": 250}), ("bandwidth", {"rate": 8})])
@pytest.mark.parametrize("name", LINKS)
async def test_a_slow_link_is_slow_and_no_more(
    converse: Conversation, name: str, kind: str, attributes: dict[str, int]
) -> None:
    # In both directions: half a second from a request to its answer.
    await converse.links[name].poison(kind, **attributes)
    await converse.ask_slowly()
    await converse.ask()
    await converse.ann.until(lambda chat: converse.expected[-1] in chat.texts, PATIENCE)
    await converse.nothing_down()
    await converse.links[name].heal()

    await converse.recovered()
    converse.answered_once()
    await converse.leaked_nothing()


NOTICED = {
    "agent-gateway": 25 + 10,
    "agent-models": 60 + 10,
    "models-upstream": 5 + 10,
    "gateway-telegram": 40 + 10,
    "gateway-postgres": 10 + 10,
}
"""Seconds within which a connection that has gone silent is given up (docs/operations.md), and a few more."""


@pytest.mark.parametrize("name", LINKS)
async def test_a_connection_that_goes_silent_is_given_up_in_time(converse: Conversation, name: str) -> None:
    await converse.links[name].poison("timeout", timeout=0)
    converse.ann.send("slowly one")
    converse.expected.append("You said: slowly one")
    await converse.ask()
    await converse.noticed(name, NOTICED[name])
    await converse.links[name].heal()

    await converse.recovered()
    converse.answered() if name == "gateway-telegram" else converse.answered_once()
    await converse.leaked_nothing()


@pytest.mark.parametrize("frozen", ["gateway", "agent"])
async def test_a_process_that_stands_still_is_given_up_by_the_other(converse: Conversation, frozen: str) -> None:
    """Nothing tells of it but that pings are not answered: each side must notice by itself."""
    world = converse.world
    process = world.gateway if frozen == "gateway" else world.agent
    log = len(world.lines)
    process.send(signal.SIGSTOP)
    converse.ann.send("slowly one")
    converse.expected.append("You said: slowly one")
    noticed = "the gateway closed the connection" if frozen == "gateway" else "agent disconnected"
    async with asyncio.timeout(NOTICED["agent-gateway"]):
        while not any(line["message"].startswith(noticed) for line in world.lines[log:]):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    process.send(signal.SIGCONT)

    await converse.recovered()
    converse.answered_once()
    await converse.leaked_nothing()


async def test_a_run_that_went_on_unheard_is_told_as_cut_off_and_not_done_again(converse: Conversation) -> None:
    """Its agent dies before the gateway has heard that it began: tools have run, and must not run again."""
    world = converse.world
    await converse.links["agent-gateway"].poison("timeout", ("upstream",), timeout=0)
    converse.ann.send("silently")
    converse.expected.append(CUT_OFF)
    asked = world.models.requests
    async with asyncio.timeout(PATIENCE):
        while asked[-1]["messages"][-1]["role"] != "tool":  # noqa: ASYNC110  nothing tells it
            await asyncio.sleep(0.05)
    await world.agent.restart()
    await converse.links["agent-gateway"].heal()

    await converse.ann.answered(CUT_OFF)
    await converse.recovered()
    converse.answered_once()
    assert [len(r["messages"]) for r in asked].count(max(len(r["messages"]) for r in asked[:-1])) == 1
