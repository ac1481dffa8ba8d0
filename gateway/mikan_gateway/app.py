"""The composition root of the gateway: what is built, started and stopped, in that order and back.

Health is served from the beginning, messages are taken at the end: a part that is slow to start is seen, and what
arrives finds everything in place. A platform that can't start is reported and tried again; it takes nothing with it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from kubernetes.aio.client import ApiClient
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from mikan_api import names
from mikan_api.exceptions import ConfigError
from mikan_api.identity import OfficeKey, Platform
from mikan_api.messaging import ConversationMessage
from mikan_api.mounted import Reloaded, following, read_settings, read_token_keys
from mikan_api.settings import Settings
from mikan_gateway.admission import Gatekeeper
from mikan_gateway.agents.authentication import Authenticator
from mikan_gateway.agents.hub import AgentHub
from mikan_gateway.agents.routes import agent_routes
from mikan_gateway.config import Config
from mikan_gateway.counted_intake import CountedIntake
from mikan_gateway.events.firings import Firings
from mikan_gateway.events.notices import Notices
from mikan_gateway.events.routes import firing_routes
from mikan_gateway.events.scheduled_event_api import ScheduledEventApi
from mikan_gateway.events.schedules import Schedules
from mikan_gateway.exceptions import GatewayError, StorageError
from mikan_gateway.health import HealthBoard, Part, health_routes
from mikan_gateway.http_server import HttpServer
from mikan_gateway.intake import MessageIntake
from mikan_gateway.lease import LeaseHolder
from mikan_gateway.metrics import Metrics
from mikan_gateway.offices.activity import ActivityWriter
from mikan_gateway.offices.api import OfficeApi
from mikan_gateway.offices.client import connect
from mikan_gateway.offices.directory import OfficeDirectory
from mikan_gateway.offices.service import KubernetesOffices
from mikan_gateway.platforms.console.platform import ConsolePlatform
from mikan_gateway.platforms.telegram.platform import TelegramPlatform
from mikan_gateway.ports import ChatPlatform, Health, Intake, SettingsSource
from mikan_gateway.pruner import Pruner
from mikan_gateway.rendering.outbox import Outbox
from mikan_gateway.rendering.renderer import Renderer
from mikan_gateway.run_metrics import RunMetrics
from mikan_gateway.runtime.clock import Clock, SystemClock
from mikan_gateway.runtime.conversation_runtime import ConversationRuntime
from mikan_gateway.storage.console import ConsoleStore
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.moves import MoveStore
from mikan_gateway.storage.outgoing import OutgoingStore
from mikan_gateway.storage.spool import SpoolDirectory
from mikan_gateway.storage.state_lock import StateLock, lock_file

PLATFORM_RETRY = 15.0
"""Seconds until a platform that could not start is tried again."""
DATABASE_RETRY = 2.0
"""Seconds between two tries to open the database."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Kubernetes:
    """The cluster's side of the process."""

    directory: OfficeDirectory
    activity: ActivityWriter
    offices: KubernetesOffices
    scheduled_events: ScheduledEventApi


class Gateway:
    """The whole process but for its signals."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._stack = AsyncExitStack()
        self._app = Starlette()
        self._server = HttpServer(_UntilStarted(self._app, lambda: self._serving), config.listen, "gateway")
        self._serving = False
        self._platforms: dict[Platform, ChatPlatform] = {}
        self._runtime: ConversationRuntime | None = None
        self._hub: AgentHub | None = None
        self._lease: LeaseHolder | None = None
        self.board = HealthBoard()
        self.metrics = Metrics()
        self.lost = asyncio.Event()
        """Set when the process must end, because another one may have become the active one."""

    @property
    def port(self) -> int:
        """The port of the internal listener."""
        return self._server.port

    @property
    def console(self) -> ConsolePlatform | None:
        """The console, if there is one."""
        found = self._platforms.get(Platform.CONSOLE)
        return found if isinstance(found, ConsolePlatform) else None

    async def start(self) -> None:
        """Start everything; returns once messages are taken.

        Raises:
            ConfigError: the process can't start as it was configured.
            StorageError: what an earlier process left can't be taken up.
        """
        settings, keys = await asyncio.to_thread(_mounted, self._config)
        await self._stack.enter_async_context(following(settings, keys))
        self.board.add(Part("settings", lambda: Health(not settings.fault, settings.fault)))
        self.board.add(Part("token keys", lambda: Health(not keys.fault, keys.fault)))
        self._app.router.routes.extend(health_routes(self.board, self.metrics.registry))
        await self._server.start()
        self._stack.push_async_callback(self._server.stop)

        api = await connect(self._config.kubeconfig)
        self._stack.push_async_callback(api.close)
        lock = await self._lock_state()
        if self._config.lease:
            await self._take_lease(api, lock)
        database = await self._open_database()
        self._stack.push_async_callback(database.close)
        cluster = self._watch(api, settings)
        await self._serve(database, cluster, settings, keys)
        self.board.started = True
        logger.info("gateway started", extra={"port": self.port, "platforms": [str(p) for p in self._platforms]})

    async def stop(self) -> None:
        """Take nothing new, let what runs end for a bounded time, then stop everything in reverse order."""
        self.board.started = False
        if self._lease:
            await self._lease.hasten()
        for platform in self._platforms.values():
            await platform.stop_intake()
        if self._runtime:
            await self._unless_lost(self._runtime.drain(self._config.drain_seconds))
        if self._hub:
            self._hub.close()
        await self._stack.aclose()
        logger.info("gateway stopped")

    async def _unless_lost(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something until it is done, or another process may have become the active one."""
        tasks = [asyncio.create_task(work), asyncio.create_task(self.lost.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _lock_state(self) -> StateLock | None:
        """Wait until no other gateway is at work on the state volume; ``None`` where a server keeps the data."""
        file = lock_file(self._config.database_url)
        if file is None:
            return None
        lock = StateLock(file, self._config.pod_name, self._clock)
        self.board.add(Part("state volume", lock.health, needed=True))
        self._stack.callback(lock.release)
        await lock.take()
        return lock

    async def _take_lease(self, api: ApiClient, lock: StateLock | None) -> None:
        config, fenced = self._config, lock is not None and lock.held
        ended = lock.predecessor if lock else ""
        lease = LeaseHolder(
            api, config.namespace, names.GATEWAY, config.pod_name, self._clock, fenced=fenced, ended=ended
        )
        # Where it is no fence it only tells who is active; without it everything is served all the same.
        self.board.add(Part("lease", lease.health, needed=not fenced))
        await lease.acquire()
        lease.keep(self.lost.set)
        self._lease = lease
        self._stack.push_async_callback(lease.release)

    async def _open_database(self) -> Database:
        """Wait for a database that is not there yet; ending instead would only have us started later and later."""
        state = Health(False, "not opened yet")
        opened: list[Database] = []
        self.board.add(Part("database", lambda: opened[0].health() if opened else state, needed=True))
        while not opened:
            try:
                opened.append(await Database.open(self._config.database_url))
            except StorageError as error:
                state = Health(False, str(error))
                logger.warning("the database cannot be opened yet", extra={"reason": str(error)})
                await self._clock.sleep(DATABASE_RETRY)
        return opened[0]

    def _watch(self, api: ApiClient, settings: SettingsSource) -> Kubernetes:
        office_api = OfficeApi(api, self._config.offices_namespace)
        directory = OfficeDirectory(office_api, self._config.offices_namespace, settings)
        activity = ActivityWriter(office_api, directory, settings)
        directory.start()
        self._stack.push_async_callback(directory.stop)
        self._stack.push_async_callback(activity.stop)
        self.board.add(Part("office-watch", directory.health, alive=lambda: directory.running))
        self.metrics.observe(self.board, lambda: sum(1 for _ in directory))
        scheduled_events = ScheduledEventApi(api, self._config.offices_namespace)
        return Kubernetes(directory, activity, KubernetesOffices(office_api, directory, activity), scheduled_events)

    async def _serve(
        self, database: Database, cluster: Kubernetes, settings: SettingsSource, keys: Reloaded[tuple[bytes, ...]]
    ) -> None:
        spool = SpoolDirectory(self._config.spool_dir)
        outbox = Outbox(OutgoingStore(database), self._log_posted, self._clock, self._note_refused)
        renderer = Renderer(self._platforms, outbox, spool, self._clock)
        runs = RunMetrics(self.metrics.registry, self._clock.monotonic)
        dropped = self.metrics.outputs_dropped.inc
        self._runtime = ConversationRuntime(
            database, cluster.offices, renderer, spool, self._clock, dropped, runs.count
        )
        self._hub = AgentHub(self._runtime.desk)
        authenticator = Authenticator(lambda: keys.current, cluster.offices)
        self._app.router.routes.extend(agent_routes(authenticator, self._hub, spool))
        firings = self._serve_events(database, cluster, outbox, spool)
        self._app.router.routes.extend(firing_routes(lambda: keys.current, firings))
        self._add_console(ConsoleStore(database))
        if self._config.telegram is not None:
            moves = MoveStore(database, Platform.TELEGRAM)
            self._platforms[Platform.TELEGRAM] = TelegramPlatform(self._config.telegram, settings, moves, self._clock)

        await cluster.directory.wait_synced()
        await spool.sweep()
        self._stack.push_async_callback(renderer.stop)
        await self._runtime.start()
        self._stack.push_async_callback(self._runtime.close)
        await firings.start()
        self._stack.push_async_callback(firings.close)
        self._correct_activity(cluster)
        self._serving = True
        gatekeeper = Gatekeeper(settings)
        intake = MessageIntake(cluster.offices, cluster.offices, self._runtime, spool, settings, gatekeeper)
        await self._start_platforms(CountedIntake(intake, self.metrics))
        pruner = Pruner(database, spool, cluster.directory, self._config.retention_seconds, self._clock)
        self._stack.push_async_callback(_cancelled(asyncio.create_task(pruner.run(), name="pruner")))

    def _serve_events(self, database: Database, cluster: Kubernetes, outbox: Outbox, spool: SpoolDirectory) -> Firings:
        assert self._runtime is not None  # noqa: S101  the caller has made it
        runtime, platforms = self._runtime, self._platforms
        runtime.desk.offer(Notices(database, cluster.offices, platforms, spool, runtime, self._clock).methods)
        runtime.desk.offer(Schedules(cluster.scheduled_events, cluster.offices).methods)
        return Firings(database, cluster.offices, platforms, outbox, runtime, self._clock)

    def _add_console(self, store: ConsoleStore) -> None:
        listen = self._config.console_listen
        if listen is not None:
            files = self._config.spool_dir / "console"
            self._platforms[Platform.CONSOLE] = ConsolePlatform(store, files, listen, self._config.console_token)

    def _correct_activity(self, cluster: Kubernetes) -> None:
        """A status that a crash left behind would keep an idle office awake for ever."""
        assert self._runtime is not None  # noqa: S101  called once it runs
        for record in cluster.directory:
            busy = self._runtime.busy(record.key)
            if (record.status.running_sessions or 0) != busy:
                cluster.activity.touch(record.key, busy)

    async def _start_platforms(self, intake: Intake) -> None:
        for platform in self._platforms.values():
            self.board.add(Part(f"platform-{platform.platform}", platform.health))
            self._stack.push_async_callback(platform.stop)
            if not await _started(platform, intake):
                task = asyncio.create_task(self._keep_starting(platform, intake))
                self._stack.push_async_callback(_cancelled(task))

    async def _keep_starting(self, platform: ChatPlatform, intake: Intake) -> None:
        while True:
            await self._clock.sleep(PLATFORM_RETRY)
            if await _started(platform, intake):
                return

    def _note_refused(self, what: str) -> None:
        self.metrics.refused.labels(what).inc()

    async def _log_posted(self, office: OfficeKey, message: ConversationMessage) -> int:
        assert self._runtime is not None  # noqa: S101  nothing is posted before it exists
        return await self._runtime.log_posted(office, message)


def _mounted(config: Config) -> tuple[Reloaded[Settings], Reloaded[tuple[bytes, ...]]]:
    settings_dir, keys_dir = config.settings_dir, config.keys_dir
    return (
        Reloaded.read("settings", lambda: read_settings(settings_dir), [settings_dir]),
        Reloaded.read("token keys", lambda: read_token_keys(keys_dir), [keys_dir]),
    )


class _UntilStarted:
    """Answers agents and the operator 503 until the runs that an earlier process left have been taken up."""

    def __init__(self, app: ASGIApp, serving: Callable[[], bool]) -> None:
        self._app = app
        self._serving = serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._serving() or not scope["path"].startswith(("/agent/", "/operator/")):
            await self._app(scope, receive, send)
            return
        refusal = JSONResponse({"error": "the gateway is starting"}, 503, headers={"Retry-After": "1"})
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(refusal)
        else:
            await refusal(scope, receive, send)


async def _started(platform: ChatPlatform, intake: Intake) -> bool:
    try:
        await platform.start(intake)
    except (ConfigError, GatewayError) as error:
        logger.error("platform not started", extra={"platform": platform.platform, "reason": str(error)})
        return False
    return True


def _cancelled(task: asyncio.Task[None]) -> Callable[[], Awaitable[None]]:
    async def cancel() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return cancel
