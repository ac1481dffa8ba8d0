"""The composition root of the agent process: what there is, started and ended in mirrored order."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from mikan_agent.attachments import Attachments
from mikan_agent.backoff import Backoff
from mikan_agent.clock import Clock, SystemClock
from mikan_agent.config import Config
from mikan_agent.confined import ConfinedDirectory
from mikan_agent.connection import REFUSED_RETRY, RETRY, Connection
from mikan_agent.dispatcher import Dispatcher
from mikan_agent.executor.paths import PathContext
from mikan_agent.executor.ports import ExecutorConfig
from mikan_agent.gateway_requests import GatewayRequests
from mikan_agent.harness.model_calls import Retries
from mikan_agent.harness.models_client import HttpModelClient
from mikan_agent.harness.responder import Responder
from mikan_agent.harness.runner import Services
from mikan_agent.harness.toolbox import Toolbox
from mikan_agent.hosts import GatewayConversation, GatewayEvents, GatewaySchedules
from mikan_agent.logbook import Logbook
from mikan_agent.memories import OfficeMemories
from mikan_agent.outbox import Outbox
from mikan_agent.records.directories import materialize
from mikan_agent.records.exceptions import StorageError
from mikan_agent.records.log import PlatformLog
from mikan_agent.runtime import Runtime
from mikan_agent.sandbox import Sandbox, StartingExecutor
from mikan_agent.session_runners import SessionRunners
from mikan_agent.sessions.search import HistorySearch
from mikan_agent.sessions.store import SessionStore
from mikan_agent.skills.office_skills import OfficeSkills
from mikan_agent.subagents.profiles import OfficeProfiles
from mikan_agent.subagents.subagents import Subagents
from mikan_agent.tokens import TokenFile
from mikan_agent.tools.attach import AttachTool
from mikan_agent.tools.bash import BashTool
from mikan_agent.tools.edit import EditTool
from mikan_agent.tools.event import EventTool
from mikan_agent.tools.history import HistoryTool
from mikan_agent.tools.read import ReadTool
from mikan_agent.tools.skill import SkillTool
from mikan_agent.tools.subagent import SubagentTool
from mikan_agent.tools.write import WriteTool
from mikan_agent.transfers import HttpTransfers
from mikan_agent.uploads import RunUploads
from mikan_api import names
from mikan_api.layout import Office, Workspace
from mikan_api.wire import LogWritten

if TYPE_CHECKING:
    from mikan_agent.extensions.office import OfficeExtensions

    MakeExtensions = Callable[[Office, Workspace, Sequence[str]], OfficeExtensions | None]

logger = logging.getLogger(__name__)

FLUSH = 5.0
"""Seconds for the last operations to be acknowledged."""
RECORDS_RETRY = Backoff(0.2, 5.0)
SANDBOX_START = 180.0
"""Seconds that a first tool call waits for a sandbox pod: its image may have to be pulled."""


class Agent:
    """Everything that serves one office in this process."""

    def __init__(
        self,
        config: Config,
        *,
        workspace: Workspace | None = None,
        make_executor: Callable[[], StartingExecutor] | None = None,
        clock: Clock | None = None,
        retries: Retries | None = None,
        reconnect: Backoff | None = None,
        make_extensions: "MakeExtensions | None" = None,
    ) -> None:
        """The optional arguments replace parts that a cluster has and a test has not."""
        self._config, self._clock = config, clock or SystemClock()
        workspace = workspace or Workspace()
        self.office = workspace.office(config.office)
        gateway_token = TokenFile(config.tokens / names.TOKEN_FILE_GATEWAY)
        office_url = f"{config.gateway_url}/agent/v1/offices/{self.office.key}"
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._outbox = Outbox()
        self._transfers = HttpTransfers(office_url, gateway_token, self._clock)
        history = ConfinedDirectory(self.office.history)
        self._log = PlatformLog(history, self.office.key, self._clock)
        attachments = Attachments(
            ConfinedDirectory(self.office.directory).directory("attachments"), self._transfers, self._clock
        )
        self._logbook = Logbook(self._log, attachments, self._clock, written=self._written, gap=self._gap)
        self._sandbox = Sandbox(
            config.sandbox_mode, make_executor or pod_executor_for(config, self.office), self._clock
        )
        self._models = HttpModelClient(config.models_url, TokenFile(config.tokens / names.TOKEN_FILE_MODELS))
        skills = OfficeSkills(self.office, workspace)
        requests = GatewayRequests(lambda frame: self._connection.send(frame))
        events = GatewayEvents(requests)
        timed = EventTool(events, self.office.address, self._clock)
        own_work = (SubagentTool(), SkillTool(skills), HistoryTool(HistorySearch(history)), timed)
        tools = (ReadTool(), BashTool(), EditTool(), WriteTool(), AttachTool(), *own_work)
        services = Services(
            office=self.office,
            models=self._models,
            toolbox=Toolbox(tools, self._sandbox, self._clock),
            subagents=Subagents(self._models, self._clock, retries or Retries(), OfficeProfiles(workspace).read),
            sandbox=self._sandbox,
            memories=OfficeMemories(self.office, workspace),
            skills=skills,
            files=attachments,
            log=self._log,
            uploads=lambda run: RunUploads(run.responder, self._transfers),
            clock=self._clock,
            retries=retries or Retries(),
        )
        sessions = history.directory("sessions")
        store = SessionStore(sessions, str(self.office.directory), self._clock)
        conversation = GatewayConversation(requests, self._transfers)
        declared = declared_extensions(config, conversation, GatewaySchedules(events))
        extensions = (make_extensions or declared)(self.office, workspace, services.toolbox.names)
        runners = SessionRunners(store, sessions, services, extensions)
        self._runtime = Runtime(runners, self._logbook, self._clock, self._responder)
        dispatcher = Dispatcher(
            config,
            secrets.token_hex(16),
            self._outbox,
            self._logbook,
            self._runtime,
            store,
            requests,
            send=lambda frame: self._connection.send(frame),
            drain=self.drain,
        )
        self._connection = Connection(
            office_url,
            gateway_token,
            self._outbox,
            dispatcher,
            self._clock,
            retry=reconnect or RETRY,
            refused_retry=reconnect or REFUSED_RETRY,
        )

    def drain(self) -> None:
        """Take no new run and end when the running ones have; harmless when repeated."""
        self._runtime.drain()
        self._ending.set()

    def terminate(self) -> None:
        """The same, with the bound of `Config.drain` (SIGTERM)."""
        logger.info("told to end")
        self.drain()
        self._start(self._bound())

    async def run(self) -> None:
        """Serve until drained."""
        if not await self._open():
            return
        try:
            self._start(self._logbook.run(), self._runtime.evict(), self._connection.run())
            ending = asyncio.create_task(self._ended())
            done, _ = await asyncio.wait({*self._tasks, ending}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {ending}:
                task.result()  # a part that ends by itself has failed
            await ending
        finally:
            await self._close()

    async def _ended(self) -> None:
        await self._ending.wait()
        await self._runtime.drained()
        try:
            async with asyncio.timeout(FLUSH):
                await self._runtime.acknowledged()
                await self._outbox.emptied()
        except TimeoutError:
            logger.warning("ending with operations that the gateway has not acknowledged")

    async def _bound(self) -> None:
        await self._clock.sleep(self._config.drain.total_seconds())
        self._runtime.end_all()

    async def _open(self) -> bool:
        """Make the directories and lock the log; an earlier pod of this office may still be letting go of it.

        Returns:
            Whether they are open; they are not if the process was told to end meanwhile.
        """
        attempt = 0
        while not self._ending.is_set():
            try:
                await asyncio.to_thread(materialize, self.office)
                await self._log.open()
            except (StorageError, OSError) as error:
                logger.error("the office's records cannot be opened: %s", error)
                await self._clock.sleep(RECORDS_RETRY.delay(attempt))
                attempt += 1
            else:
                return True
        return False

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._runtime.close()
        await self._log.close()
        await self._sandbox.aclose()
        await self._models.aclose()
        await self._transfers.aclose()

    def _start(self, *parts: Coroutine[Any, Any, None]) -> None:
        self._tasks += [asyncio.create_task(part) for part in parts]

    def _responder(self, run_id: str) -> Responder:
        return Responder(run_id, self._outbox, self._connection.show, self._clock)

    def _written(self, number: int) -> None:
        self._connection.send(LogWritten(number=number))

    def _gap(self, reason: str) -> None:
        self._start(self._connection.restart(reason))


def declared_extensions(
    config: Config, conversation: GatewayConversation, schedules: GatewaySchedules
) -> "MakeExtensions":
    """Those of the packages that the office declares; ``None`` where there are none, which then cost nothing."""

    def make(office: Office, workspace: Workspace, tools: Sequence[str]) -> "OfficeExtensions | None":
        if not config.packages:
            return None
        from mikan_agent.extensions.office import OfficeExtensions
        from mikan_agent.extensions.packages import locate

        return OfficeExtensions(
            lambda: locate(config.packages), office, workspace, tools, conversation=conversation, schedules=schedules
        )

    return make


def pod_executor_for(config: Config, office: Office) -> Callable[[], StartingExecutor] | None:
    """How the sandbox pod of this office is reached; ``None`` for modes that have none of their own."""
    if not config.sandbox_mode.per_office:
        return None

    def make() -> StartingExecutor:
        # Not needed to connect to the gateway.
        from mikan_agent.executor.pod_exec import ApiServer, PodTarget, pod_executor

        path = PurePosixPath(office.directory)
        return pod_executor(
            ApiServer.in_cluster(),
            PodTarget(namespace=config.namespace, pod=config.sandbox_pod),
            ExecutorConfig(
                mode=config.sandbox_mode, vault_env=True, vault_files=config.sandbox_mode.mounts_vault_files
            ),
            PathContext(runtime_root=path, host_root=path),
            start_timeout=SANDBOX_START,
        )

    return make
