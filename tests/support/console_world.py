"""The console platform on a real listener and a real database, with a played intake behind it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from gateway_doubles import key_of
from gateway_edges import DirectorySpool
from mikan_api.console import CONSOLE_PREFIX, ConsoleEvent
from mikan_api.environment import Listen
from mikan_api.messaging import Attachment
from mikan_gateway.platforms.console.platform import ConsolePlatform
from mikan_gateway.ports import InboundMessage, Target
from mikan_gateway.storage.console import ConsoleStore
from mikan_gateway.storage.database import Database

TOKEN = "t" * 24


class PlayedIntake:
    """Notes messages, numbers each id once, and raises what a test wants."""

    def __init__(self) -> None:
        self.messages: list[InboundMessage] = []
        self.failures: list[Exception] = []
        self.turn_away = False
        self.news = asyncio.Event()

    async def receive(self, message: InboundMessage) -> int | None:
        if self.failures:
            raise self.failures.pop(0)
        if self.turn_away:
            return None
        ids = [m.event.message.id for m in self.messages]
        if message.event.message.id not in ids:
            self.messages.append(message)
            ids.append(message.event.message.id)
        self.news.set()
        return ids.index(message.event.message.id) + 1

    async def next(self) -> InboundMessage:
        """The next message that comes."""
        await self.news.wait()
        self.news.clear()
        return self.messages[-1]


class ConsoleWorld:
    """One console; `restart` is a new process on the same volume, on the same port."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.intake = PlayedIntake()
        self.spool = DirectorySpool(root)
        self.port = 0
        self.platform: ConsolePlatform
        self._database: Database

    async def start(self) -> None:
        self._database = await Database.open(f"sqlite+aiosqlite:///{self.root}/mikan.db")
        store = ConsoleStore(self._database)
        self.platform = ConsolePlatform(store, self.root / "files", Listen("127.0.0.1", self.port), TOKEN)
        await self.platform.start(self.intake)
        self.port = self.platform.port

    async def stop(self) -> None:
        await self.platform.stop()
        await self._database.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str = TOKEN) -> httpx.AsyncClient:
        """A client below the conversations."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.AsyncClient(base_url=f"{self.url}{CONSOLE_PREFIX}", headers=headers, trust_env=False)

    @asynccontextmanager
    async def watching(self, after: int = 0, conversation: str = "C1") -> AsyncIterator[AsyncIterator[ConsoleEvent]]:
        """The events of a conversation, as a client gets them."""
        async with self.client() as client, client.stream("GET", f"/{conversation}/events?after={after}") as response:
            assert response.status_code == 200
            yield _events(response)

    async def attachments(self, message: InboundMessage) -> list[Attachment]:
        """What the intake would get."""
        assert message.attachments is not None
        return list(await message.attachments.fetch(key_of(), self.spool))

    def target(self, reply_to: str | None = "u1") -> Target:
        return Target("C1", None, reply_to)


async def _events(response: httpx.Response) -> AsyncIterator[ConsoleEvent]:
    async for line in response.aiter_lines():
        if line.strip():
            yield ConsoleEvent.model_validate_json(line)
