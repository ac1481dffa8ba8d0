"""The gateway's own parts with Telegram for a platform: everything real but the cluster, the agents and Telegram."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette

from gateway_doubles import KEY, FakeOffices, RunningServer
from gateway_edges import FakeEditor, FixedSettings
from mikan_api.identity import OfficeAddress, OfficeKey, Platform
from mikan_api.settings import Admission, Settings
from mikan_gateway.admission import Gatekeeper
from mikan_gateway.agents.authentication import Authenticator
from mikan_gateway.agents.hub import AgentHub
from mikan_gateway.agents.routes import agent_routes
from mikan_gateway.config import TelegramConfig
from mikan_gateway.intake import MessageIntake
from mikan_gateway.platforms.telegram.platform import TelegramPlatform
from mikan_gateway.ports import ChatPlatform, InboundMessage, Intake
from mikan_gateway.rendering.outbox import Outbox
from mikan_gateway.rendering.renderer import Renderer
from mikan_gateway.runtime.clock import Clock, SystemClock
from mikan_gateway.runtime.conversation_runtime import ConversationRuntime
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.messages import log_entries
from mikan_gateway.storage.moves import MoveStore
from mikan_gateway.storage.outgoing import OutgoingStore
from mikan_gateway.storage.spool import SpoolDirectory
from servers.telegram.server import TelegramServer
from telegram_agent import Play, PlayedAgent, echo

OPEN = Settings(admission={Platform.TELEGRAM: Admission(open=True)})


def config_of(server: TelegramServer) -> TelegramConfig:
    """How to reach a server."""
    return TelegramConfig(server.token, server.base_url, server.base_file_url)


class HurriedClock(SystemClock):
    """Time in which waiting for Telegram's leave takes a tenth as long; for tests that its limits are no part of."""

    def monotonic(self) -> float:
        return super().monotonic() * 10

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 10)


class TelegramGateway:
    """One gateway process's worth of parts; `restart` is the next one on the same volume."""

    def __init__(
        self,
        config: TelegramConfig,
        root: Path,
        *,
        settings: Settings = OPEN,
        play: Play = echo,
        around: Callable[[Intake], Intake] = lambda intake: intake,
        clock: Clock | None = None,
    ) -> None:
        self.config, self.root, self.play = config, root, play
        self._clock = clock or HurriedClock()
        self.settings = FixedSettings(settings)
        self.offices = FakeOffices()
        self.refused: list[str] = []
        """What Telegram would not take for good."""
        self._around = around
        self.platform: TelegramPlatform
        self.database: Database
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> None:
        self.database = await Database.open(f"sqlite+aiosqlite:///{self.root}/mikan.db")
        self._stack.push_async_callback(self.database.close)
        clock = SystemClock()
        spool = SpoolDirectory(self.root / "spool")
        platforms: dict[Platform, ChatPlatform] = {}
        outbox = Outbox(
            OutgoingStore(self.database), lambda office, m: runtime.log_posted(office, m), clock, self.refused.append
        )
        renderer = Renderer(platforms, outbox, spool, clock)
        runtime = self.runtime = ConversationRuntime(self.database, self.offices, renderer, spool)
        hub = AgentHub(runtime.desk)
        routes = agent_routes(Authenticator(lambda: [KEY], self.offices), hub, spool)
        self._server = await self._stack.enter_async_context(RunningServer(Starlette(routes=routes)))
        self._stack.callback(hub.close)
        self._stack.push_async_callback(renderer.stop)
        await runtime.start()
        self._stack.push_async_callback(runtime.close)
        moves = MoveStore(self.database, Platform.TELEGRAM)
        self.platform = TelegramPlatform(self.config, self.settings, moves, self._clock)
        platforms[Platform.TELEGRAM] = self.platform
        agents = asyncio.create_task(self._play_agents())
        self._stack.push_async_callback(_ended, agents)
        gatekeeper = Gatekeeper(self.settings)
        intake = MessageIntake(self.offices, FakeEditor(), runtime, spool, self.settings, gatekeeper)
        self._stack.push_async_callback(self.platform.stop)
        await self.platform.start(self._around(intake))

    async def stop(self) -> None:
        await self._stack.aclose()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def __aenter__(self) -> "TelegramGateway":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def know(self, conversation: str) -> None:
        """Have an office that an earlier process made."""
        self.offices.add(OfficeAddress(Platform.TELEGRAM, conversation))

    async def logged(self, conversation: str) -> list[str]:
        """Texts of an office's log, as the agent would get them."""
        office = OfficeAddress(Platform.TELEGRAM, conversation).key
        entries = await self.database.read(lambda c: log_entries(c, office, 0, 1000, 10_000_000))
        return [entry.message.text for entry in entries]

    async def _play_agents(self) -> None:
        """Have an agent in each office, as soon as there is one."""
        known: set[OfficeKey] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                self.offices.changed.clear()
                for office in set(self.offices.views) - known:
                    known.add(office)
                    group.create_task(PlayedAgent(self._server, self.offices, office, self.play).run())
                await self.offices.changed.wait()
                # The office is there a moment after it is asked for.
                await asyncio.sleep(0)


Start = Callable[..., Awaitable[TelegramGateway]]
"""Starts a gateway."""


class CountedMessages:
    """Notes what passes to an intake."""

    def __init__(self) -> None:
        self.messages: list[InboundMessage] = []
        self._intake: Intake

    def around(self, intake: Intake) -> Intake:
        """Stand before an intake."""
        self._intake = intake
        return self

    @property
    def session_keys(self) -> list[str]:
        return [str(message.event.session_key) for message in self.messages]

    @property
    def texts(self) -> list[str]:
        return [message.event.message.text for message in self.messages]

    async def receive(self, message: InboundMessage) -> int | None:
        self.messages.append(message)
        return await self._intake.receive(message)

    async def refuse(self, message: InboundMessage, reason: str) -> None:
        await self._intake.refuse(message, reason)


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
