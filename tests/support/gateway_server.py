"""The gateway's durable path as a server: runtime, hub and routes on a free port, everything else played."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette

from gateway_doubles import KEY, FakeOffices, RecordingOutput, RunningServer, WireAgent, dial, inbound, key_of
from mikan_api.identity import OfficeAddress, Platform
from mikan_gateway.agents.authentication import Authenticator
from mikan_gateway.agents.hub import AgentHub
from mikan_gateway.agents.routes import agent_routes
from mikan_gateway.runtime.conversation_runtime import ConversationRuntime
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.spool import SpoolDirectory


class Gateway:
    """A gateway that can be restarted on the same database and spool."""

    def __init__(self, url: str, spool: Path) -> None:
        self._url = url
        self.offices, self.output = FakeOffices(), RecordingOutput()
        self.spool = SpoolDirectory(spool, max_file=1_000_000)
        self.database: Database
        self.runtime: ConversationRuntime
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
        await self.runtime.close()
        await self.database.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def office(self, conversation: str = "C1") -> None:
        self.offices.add(OfficeAddress(Platform.CONSOLE, conversation))

    async def ask(self, message_id: str = "m1", session: str | None = None, conversation: str = "C1") -> str:
        submitted = await self.runtime.submit(inbound(conversation, message_id, session=session), True)
        assert submitted.run_id is not None
        return submitted.run_id

    @contextlib.asynccontextmanager
    async def agent(self, incarnation: str = "i1", conversation: str = "C1") -> AsyncIterator[WireAgent]:
        """An agent's connection, before its hello."""
        async with dial(self.server, self.offices.claims(key_of(conversation)), incarnation) as agent:
            yield agent

    async def gone(self) -> None:
        """Wait until no agent is connected."""
        while len(self.hub):  # noqa: ASYNC110  the hub has nobody else to tell
            await asyncio.sleep(0.005)
