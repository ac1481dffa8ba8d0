"""An agent that dies a hundred times wherever it happens to be: sessions go on, and no model is ever asked amiss."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from agent_peers.gateway import TOKEN, GatewayPeer
from agent_peers.models import Answer, Call, JsonObject, ModelsPeer, Refuse, Text
from agent_peers.office import ADDRESS, run_request, workspace_in
from durability_agent import ROOT_VARIABLE
from forked import Forked, Mother
from mikan_agent.confined import ConfinedDirectory
from mikan_agent.messages import AssistantMessage, ToolResultMessage, UserMessage
from mikan_agent.sessions.store import SessionStore
from mikan_api.responder import RunFinished, RunOutcome, RunStarted

KILLS = 100
LONGEST = 0.12
"""Seconds until a kill; a run here takes about as long."""
KEYS = ("room", "room:thread")

pytestmark = pytest.mark.timeout(240)


class TalkingModels(ModelsPeer):
    """Answers every message with two rounds of tool calls and a text."""

    class _Script(list[Answer | Refuse]):
        def __init__(self, requests: list[JsonObject]) -> None:
            super().__init__()
            self._requests = requests

        def __bool__(self) -> bool:
            return True

        def pop(self, _index: Any = -1) -> Answer:
            messages = self._requests[-1]["messages"]
            since = [m["role"] for m in messages[max(i for i, m in enumerate(messages) if m["role"] == "user") :]]
            round_ = since.count("assistant")
            if round_ == 2:
                return Answer([Text("All "), Text("done.")])
            write = Call("write", {"path": f"f{round_}", "content": "one"}, f"w{len(self._requests)}", 0)
            read = Call("read", {"path": f"f{round_}"}, f"r{len(self._requests)}", 1)
            return Answer([Text("Working."), write, read])

    def __init__(self) -> None:
        super().__init__()
        self.script = self._Script(self.requests)


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mother]:
    """Of agent processes."""
    mother = Mother("durability_agent:main", tmp_path_factory.mktemp("mother") / "agent")
    yield mother
    mother.stop()


@asynccontextmanager
async def agent(mother: Mother, root: Path, gateway: GatewayPeer, models: ModelsPeer) -> AsyncIterator[Forked]:
    """A process that serves the office, killed at the end of the block."""
    environment = {
        ROOT_VARIABLE: str(root),
        "MIKAN_OFFICE_PLATFORM": ADDRESS.platform.value,
        "MIKAN_OFFICE_CONVERSATION": ADDRESS.conversation_id,
        "MIKAN_GATEWAY_URL": gateway.url,
        "MIKAN_MODELS_URL": models.url,
        "MIKAN_TOKENS_DIR": str(root / "tokens"),
        "MIKAN_POD_NAME": "a-office",
        "MIKAN_POD_UID": "a-uid",
        "MIKAN_NAMESPACE": "offices",
        "MIKAN_SANDBOX_MODE": "image:test",
        "MIKAN_SANDBOX_POD": "s-office",
    }
    process = await mother.fork(environment, root / "log")
    try:
        await gateway.until(lambda: gateway.connected)
        yield process
    finally:
        await process.end()
        await gateway.until(lambda: not gateway.connected)


def check_request(messages: list[JsonObject]) -> None:
    """What every provider insists on: each call directly followed by its one result, and nothing else between."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, messages
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting, messages
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert not waiting, messages


async def check_session(store: SessionStore, name: str) -> Counter[str]:
    """A session file opens, its calls have their results; returns how often each message of a person stands in it."""
    async with store.reading(name) as loaded:
        messages = [entry.message for entry in loaded.tree.entries if entry.message is not None]
    answered = Counter(m.tool_call_id for m in messages if isinstance(m, ToolResultMessage))
    called = Counter(call.id for m in messages if isinstance(m, AssistantMessage) for call in m.tool_calls)
    assert answered == called
    return Counter(m.text for m in messages if isinstance(m, UserMessage))


async def test_after_a_hundred_kills_every_session_opens_and_goes_on(agents: Mother) -> None:
    seed = random.randrange(1_000_000)
    chance = random.Random(seed)
    with TemporaryDirectory(prefix="mx") as name:
        root = Path(name)
        (root / "tokens").mkdir()
        for audience in ("gateway", "models"):
            (root / "tokens" / audience).write_text(TOKEN)
        async with TalkingModels() as models, GatewayPeer(ADDRESS.key) as gateway:
            for number in range(KILLS):
                async with agent(agents, root, gateway, models):
                    await gateway.deliver(run_request(f"message {number}", f"r{number}", session_key=KEYS[number % 2]))
                    await asyncio.sleep(chance.uniform(0, LONGEST))
            async with agent(agents, root, gateway, models):
                for number, key in enumerate(KEYS, KILLS):
                    await gateway.deliver(run_request(f"message {number}", f"r{number}", session_key=key))
                    assert (await gateway.finished(f"r{number}")).outcome is RunOutcome.COMPLETED, f"seed {seed}"

            assert gateway.seen.breaches == [], f"seed {seed}"
            for request in models.requests:
                check_request(request["messages"])
            ends = {run for run, operation in gateway.seen.operations if isinstance(operation, RunFinished)}
            begun = {run for run, operation in gateway.seen.operations if isinstance(operation, RunStarted)}
            # Both happen, or the kills came at no interesting times.
            assert begun - ends, f"seed {seed}"
            assert len(ends) > len(KEYS), f"seed {seed}"

        office = workspace_in(root).office(ADDRESS)
        store = SessionStore(ConfinedDirectory(office.sessions), str(office.directory))
        told: Counter[str] = Counter()
        for file in await store.files():
            told += await check_session(store, file.name)
        assert told == Counter(f"message {number}" for number in range(KILLS + len(KEYS))), f"seed {seed}"
