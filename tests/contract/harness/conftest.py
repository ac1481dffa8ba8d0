"""An office served by an agent in this process, between a strict gateway, a scripted model and a real helper."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from agent_peers.gateway import GatewayPeer
from agent_peers.helper import build_helper
from agent_peers.models import Answer, ModelsPeer, Refuse
from agent_peers.office import ADDRESS, serving, workspace_in
from mikan_agent.app import Agent
from mikan_agent.confined import ConfinedDirectory
from mikan_agent.executor import LocalHelper
from mikan_agent.messages import Message
from mikan_agent.sessions.store import SessionStore
from mikan_agent.sessions.tree import Entry
from mikan_api.layout import Office

if TYPE_CHECKING:
    from mikan_agent.app import MakeExtensions


@pytest.fixture(scope="session")
def helper_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sandbox helper."""
    return build_helper(tmp_path_factory.mktemp("helper"))


@dataclass
class Stage:
    """Everything around one agent."""

    root: Path
    agent: Agent
    gateway: GatewayPeer
    models: ModelsPeer
    office: Office

    @property
    def directory(self) -> Path:
        """The office directory."""
        return Path(self.office.directory)

    async def session(self) -> list[Message]:
        """The messages in the top-level session's file, as they stand there."""
        return await recorded_messages(self.office)


async def recorded_messages(office: Office) -> list[Message]:
    """The messages in the top-level session's file; nothing is repaired for the reader."""
    return [entry.message for entry in await recorded_entries(office) if entry.message is not None]


async def recorded_entries(office: Office) -> Sequence[Entry]:
    """The entries in the top-level session's file."""
    store = SessionStore(ConfinedDirectory(office.sessions), str(office.directory))
    current = next(file.name for file in await store.files() if file.is_current)
    async with store.reading(current) as loaded:
        entries = loaded.tree.entries
        for entry in entries:
            assert entry.raw  # read while the file is open
    return entries


OpenStage = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture
def stage(helper_binary: Path) -> OpenStage:
    """Sets the stage for a script of the model."""

    @asynccontextmanager
    async def open_stage(
        *script: Answer | Refuse, mode: str = "image:test", make_extensions: "MakeExtensions | None" = None
    ) -> AsyncIterator[Stage]:
        # Not tmp_path: the helper's socket needs a short name.
        with TemporaryDirectory(prefix="mx") as name:
            root = Path(name)
            workspace = workspace_in(root)
            office = workspace.office(ADDRESS)
            async with (
                ModelsPeer(*script) as models,
                GatewayPeer(ADDRESS.key) as gateway,
                LocalHelper(helper_binary, root, Path(workspace.root)) as helper,
                serving(
                    root,
                    gateway.url,
                    models.url,
                    helper.executor if mode.startswith("image") else None,
                    mode,
                    make_extensions,
                ) as agent,
            ):
                await gateway.until(lambda: bool(gateway.seen.hellos))
                yield Stage(root, agent, gateway, models, office)
                assert gateway.seen.breaches == []

    return open_stage
