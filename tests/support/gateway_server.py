"""The gateway's durable path as a server: runtime, hub and routes on a free port, everything else played."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette

from gateway_doubles import KEY, RunningServer, WireAgent, dial, key_of
from gateway_runtime import RuntimeWorld
from mikan_gateway.agents.authentication import Authenticator
from mikan_gateway.agents.hub import AgentHub
from mikan_gateway.agents.routes import agent_routes
from mikan_gateway.runtime.conversation_runtime import ConversationRuntime
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.spool import SpoolDirectory


class Gateway(RuntimeWorld):
    """A gateway that can be restarted on the same database and spool."""

    def __init__(self, url: str, spool: Path) -> None:
        super().__init__()
        self._url = url
        self.spool = SpoolDirectory(spool, max_file=1_000_000)
        self.hub: AgentHub
        self.server: RunningServer

    async def start(self) -> None:
        self.database = await Database.open(self._url)
        self.runtime = ConversationRuntime(self.database, self.offices, self.output, self.spool)
        await self.runtime.start()
        self.hub = AgentHub(self.runtime.desk)
        routes = agent_routes(Authenticator(lambda: [KEY], self.offices), self.hub, self.spool)
        self.server = await RunningServer(Starlette(routes=routes)).__aenter__()

    async def stop(self) -> None:
        self.hub.close()
        await self.server.__aexit__(None, None, None)
        await super().stop()

    @contextlib.asynccontextmanager
    async def agent(self, incarnation: str = "i1", conversation: str = "C1") -> AsyncIterator[WireAgent]:
        """An agent's connection, before its hello."""
        async with dial(self.server, self.offices.claims(key_of(conversation)), incarnation) as agent:
            yield agent

    async def gone(self) -> None:
        """Wait until no agent is connected."""
        while len(self.hub):  # noqa: ASYNC110  the hub has nobody else to tell
            await asyncio.sleep(0.005)
