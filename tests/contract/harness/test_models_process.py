"""The agent and the real models process, over HTTP: what one sends the other understands."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_peers.gateway import GatewayPeer
from agent_peers.office import ADDRESS, run_request, serving, workspace_in
from mikan_agent.executor import LocalHelper
from mikan_api.responder import Diagnostic, Respond, RunOutcome, ToolStatus
from models_service import UID, KnownOffices, ModelsFixture, token


@dataclass
class World:
    """An office with a real models process behind it."""

    root: Path
    gateway: GatewayPeer

    async def say(self, text: str, run_id: str = "r1", model: str = "scripted/demo") -> RunOutcome:
        """Write to the agent and wait for the end of the run."""
        await self.gateway.deliver(run_request(text, run_id, model=model))
        return (await self.gateway.finished(run_id)).outcome

    def answer(self, run_id: str = "r1") -> str:
        """What the agent answered."""
        return next(o.text for o in self.gateway.operations(run_id) if isinstance(o, Respond))


@pytest.fixture
async def world(helper_binary: Path, tmp_path: Path) -> AsyncIterator[World]:
    """Set up; the helper's socket needs a short name."""
    with TemporaryDirectory(prefix="mx") as name:
        root = Path(name)
        models = ModelsFixture(tmp_path, KnownOffices({ADDRESS.key: (UID, 0)}))
        workspace = Path(workspace_in(root).root)
        async with (
            models.served() as running,
            GatewayPeer(ADDRESS.key) as gateway,
            LocalHelper(helper_binary, root, workspace) as helper,
            serving(root, gateway.url, str(running.client.base_url).rstrip("/"), helper.executor),
        ):
            (root / "tokens" / "models").write_text(token(office=ADDRESS.key))
            await gateway.until(lambda: gateway.connected)
            yield World(root, gateway)


async def test_the_scripted_model_runs_a_command_and_tells_its_output(world: World) -> None:
    assert await world.say("run: echo from the sandbox") is RunOutcome.COMPLETED
    assert "(scripted model)" in world.answer()
    assert "from the sandbox" in world.answer()
    assert [o.state for o in world.gateway.operations("r1") if isinstance(o, ToolStatus)] == ["running", "done"]


async def test_files_are_written_edited_read_and_sent(world: World) -> None:
    for number, text in enumerate(["write f.txt: one two", "edit f.txt: two => 2", "read f.txt", "attach f.txt"]):
        assert await world.say(text, f"r{number}") is RunOutcome.COMPLETED
    assert "one 2" in world.answer("r2")
    assert list(world.gateway.blobs.values()) == [b"one 2"]


async def test_an_unknown_model_is_told_with_the_next_step(world: World) -> None:
    assert await world.say("hello", model="nobody/nothing") is RunOutcome.FAILED
    (fault,) = [o.text for o in world.gateway.operations("r1") if isinstance(o, Diagnostic)]
    assert "Choose another one with /model" in fault


async def test_a_token_that_is_refused_is_told_and_not_shown(world: World) -> None:
    forged = token(key=b"x" * 32, office=ADDRESS.key)
    (world.root / "tokens" / "models").write_text(forged)
    assert await world.say("hello") is RunOutcome.FAILED
    (fault,) = [o.text for o in world.gateway.operations("r1") if isinstance(o, Diagnostic)]
    assert "were refused" in fault
    assert forged not in fault


async def test_a_server_error_is_retried_to_the_bound_and_told(world: World) -> None:
    assert await world.say("error 503") is RunOutcome.FAILED
    (fault,) = [o.text for o in world.gateway.operations("r1") if isinstance(o, Diagnostic)]
    assert fault.startswith("The model is overloaded")


async def test_a_stream_that_is_cut_each_time_keeps_what_was_said(world: World) -> None:
    assert await world.say("cut: half of it") is RunOutcome.FAILED
    assert world.answer().startswith("(scripted model) half")
