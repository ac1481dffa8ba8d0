"""A conversation whose processes are real, each started anew whenever it dies.

Gateway and agent always; the models process where it is asked for, and the Bot API's double for a platform. What a
process is to do is told by messages (`played_models`), and what came of it by what a person sees.
"""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
from kubernetes.client import CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from census import VARIABLE as CENSUS_VARIABLE
from census import Census, census
from console_chat import PATIENCE, TOKEN, ConsoleChat
from durability_agent import ROOT_VARIABLE
from forked import Mother
from free_port import free_port
from gateway_doubles import KEY
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.tokens import OfficeClaims, issue_token
from played_models import PlayedModels
from servers.telegram.server import TelegramServer
from supervised import Supervised

MODEL = "upstream/test"


class Mothers:
    """One of each kind of process, from when it is needed."""

    def __init__(self, root: Path) -> None:
        """``root``: where they listen."""
        self._root = root
        self._mothers: dict[str, Mother] = {}

    def of(self, process: str) -> Mother:
        """The mother of ``gateway``, ``agent`` or ``models``."""
        if process not in self._mothers:
            self._mothers[process] = Mother(f"durability_{process}:main", self._root / process)
        return self._mothers[process]

    def stop(self) -> None:
        """End them; children must have ended."""
        for mother in self._mothers.values():
            mother.stop()


@dataclass(frozen=True)
class Cluster:
    """A real API server, and a namespace in it."""

    offices: CustomObjectsApi
    kubeconfig: Path
    namespace: str


class Network(Protocol):
    """The ways from one process to another."""

    async def link(self, name: str, port: int) -> int:
        """The port at which one process reaches what another serves at ``port``."""
        ...


class Direct:
    """Nothing in between."""

    async def link(self, name: str, port: int) -> int:
        """The same port."""
        return port


class DurableWorld:
    """One conversation and its processes."""

    def __init__(
        self,
        root: Path,
        mothers: Mothers,
        cluster: Cluster,
        *,
        database_url: str = "",
        telegram: TelegramServer | None = None,
        models_process: bool = False,
        network: Network | None = None,
        gateway: Mapping[str, str] | None = None,
        agent: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare.

        Args:
            root: where everything is kept.
            mothers: fork the processes.
            cluster: where Offices are.
            database_url: SQLite if there is none.
            telegram: a platform beside the console; the conversation is a private chat there.
            models_process: have the agent ask it, and it the played models; else the agent asks them itself.
            network: what lies between the processes.
            gateway: more variables of the gateway's environment.
            agent: more variables of the agent's environment.
        """
        self.root, self.cluster, self.telegram = root, cluster, telegram
        self._mothers, self._models_process, self._network = mothers, models_process, network or Direct()
        self._database_url = database_url or f"sqlite+aiosqlite:///{root}/mikan.db"
        self._more = {"gateway": dict(gateway or {}), "agent": dict(agent or {})}
        if telegram is None:
            self.address = OfficeAddress(Platform.CONSOLE, f"D{secrets.token_hex(4)}")
        else:
            self.address = OfficeAddress(Platform.TELEGRAM, str(10**6 + secrets.randbelow(10**9)))
        self.port, self.console = free_port(), free_port()
        self.models = PlayedModels()
        self.chat = ConsoleChat(self.console, self.address.conversation_id)
        self.gateway: Supervised
        self.agent: Supervised

    @contextlib.asynccontextmanager
    async def running(self, point: str = "") -> AsyncIterator["DurableWorld"]:
        """The gateway runs; the agent once `wake` is called. ``point`` is armed in the process that has it."""
        self._write_files()
        async with self.models, self.chat, contextlib.AsyncExitStack() as stack:
            models_url = await self._start_models(stack)
            self.gateway = self._supervised("gateway", await self._gateway_environment(), point)
            self.agent = self._supervised("agent", await self._agent_environment(models_url), point)
            stack.push_async_callback(self.gateway.stop)
            stack.push_async_callback(self.agent.stop)
            self.gateway.start()
            try:
                yield self
            except BaseException as error:
                error.add_note(f"{self.log}\ngateway {self.gateway.lives}\nagent {self.agent.lives}")
                raise

    async def wake(self) -> None:
        """Start the agent once its Office exists."""
        uid = await self._office_uid()
        tokens = self.root / "tokens"
        tokens.mkdir()
        for audience in ("gateway", "models"):
            claims = OfficeClaims(self.address.key, uid, 0)
            (tokens / audience).write_text(issue_token(KEY, audience, claims))
        self.agent.start()

    async def lose_the_agent(self) -> None:
        """End the agent for good; its Office says that there is another pod."""
        await self.agent.stop()
        status = {"status": {"agent": {"podName": f"a-{self.address.key}", "podUID": "another"}}}
        await asyncio.to_thread(self.cluster.offices.patch_namespaced_custom_object_status, *self._office, status)

    async def killed(self) -> None:
        """Wait until the armed process has killed itself."""
        ends = [asyncio.create_task(process.ended.wait()) for process in (self.gateway, self.agent)]
        done, pending = await asyncio.wait(ends, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        assert done, f"the place was not reached\n{self.log}"

    async def parts(self) -> dict[str, Any]:
        """What the gateway says of its parts: status code as ``status``, and each part that is down with its reason."""
        async with httpx.AsyncClient(trust_env=False) as client:
            response = await client.get(f"http://127.0.0.1:{self.port}/readyz")
        down = {name: part["reason"] for name, part in response.json()["parts"].items() if not part["ok"]}
        return {"status": response.status_code} | down

    async def census(self, process: Supervised) -> Census:
        """What a process has open."""
        return await census(process.pid, self.root / "census")

    @property
    def deaths(self) -> Sequence[int]:
        """How processes ended that nobody ended here."""
        return [*self.gateway.ends, *self.agent.ends]

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What the processes logged."""
        return [json.loads(line) for line in (self.root / "log").read_text().splitlines() if line.startswith("{")]

    @property
    def log(self) -> str:
        """The same as text, warnings and worse."""
        lines = (self.root / "log").read_text().splitlines()
        return "\n".join(line for line in lines if not line.startswith("{") or json.loads(line)["level"] != "info")

    @property
    def _office(self) -> tuple[str, str, str, str, str]:
        return "mikan.dev", "v1alpha1", self.cluster.namespace, "offices", self.address.key

    async def _office_uid(self) -> str:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    get = self.cluster.offices.get_namespaced_custom_object
                    return str((await asyncio.to_thread(get, *self._office))["metadata"]["uid"])
                except ApiException as error:
                    if error.status != 404:
                        raise
                await asyncio.sleep(0.05)

    def _write_files(self) -> None:
        everybody = {"open": True}
        settings = {"llm": {"model": MODEL}, "admission": {"console": everybody, "telegram": everybody}}
        files = {
            "settings.json": json.dumps(settings),
            "current": KEY.decode(),
            "token": TOKEN,
            "telegram-token": self.telegram.token if self.telegram else "",
        }
        for name, content in files.items():
            (self.root / name).write_text(content)

    def _supervised(self, process: str, environment: dict[str, str], point: str) -> Supervised:
        census = {CENSUS_VARIABLE: str(self.root / "census")}
        return Supervised(
            self._mothers.of(process),
            environment | census | self._more.get(process, {}),
            self.root / "log",
            point if point.startswith(f"{process}.") else "",
        )

    async def _start_models(self, stack: contextlib.AsyncExitStack) -> str:
        """Where the agent finds its models."""
        if not self._models_process:
            return self.models.url
        upstream = await self._network.link("models-upstream", urlsplit(self.models.url).port or 0)
        provider = {"kind": "openai", "apiBase": f"http://127.0.0.1:{upstream}/v1", "timeoutSeconds": 5}
        document = {"providers": {"upstream": provider | {"idleTimeoutSeconds": 5}}}
        (self.root / "models.json").write_text(json.dumps(document))
        port = free_port()
        environment = {
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "MIKAN_OFFICES_NAMESPACE": self.cluster.namespace,
            "MIKAN_SETTINGS_DIR": str(self.root),
            "MIKAN_KEYS_DIR": str(self.root),
            "MIKAN_MODELS_CONFIG": str(self.root / "models.json"),
            "MIKAN_MODELS_KEYS_DIR": str(self.root),
            "MIKAN_LISTEN": f"127.0.0.1:{port}",
        }
        process = self._supervised("models", environment, "")
        process.start()
        stack.push_async_callback(process.stop)
        return f"http://127.0.0.1:{await self._network.link('agent-models', port)}"

    async def _gateway_environment(self) -> dict[str, str]:
        environment = {
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "MIKAN_NAMESPACE": self.cluster.namespace,
            "MIKAN_OFFICES_NAMESPACE": self.cluster.namespace,
            "MIKAN_SETTINGS_DIR": str(self.root),
            "MIKAN_KEYS_DIR": str(self.root),
            "MIKAN_LISTEN": f"127.0.0.1:{self.port}",
            "MIKAN_DATABASE_URL": await self._linked_database(),
            "MIKAN_SPOOL_DIR": str(self.root / "spool"),
            "MIKAN_CONSOLE_LISTEN": f"127.0.0.1:{self.console}",
            "MIKAN_CONSOLE_TOKEN_FILE": str(self.root / "token"),
            "MIKAN_POD_NAME": "gateway-0",
        }
        if self.telegram is not None:
            port = await self._network.link("gateway-telegram", urlsplit(self.telegram.base_url).port or 0)
            base = f"http://127.0.0.1:{port}"
            environment |= {
                "MIKAN_TELEGRAM_TOKEN_FILE": str(self.root / "telegram-token"),
                "MIKAN_TELEGRAM_BASE_URL": f"{base}/bot",
                "MIKAN_TELEGRAM_BASE_FILE_URL": f"{base}/file/bot",
            }
        return environment

    async def _linked_database(self) -> str:
        port = urlsplit(self._database_url).port
        if port is None:
            return self._database_url
        return self._database_url.replace(f":{port}/", f":{await self._network.link('gateway-postgres', port)}/")

    async def _agent_environment(self, models_url: str) -> dict[str, str]:
        port = await self._network.link("agent-gateway", self.port)
        return {
            ROOT_VARIABLE: str(self.root),
            "MIKAN_OFFICE_PLATFORM": self.address.platform.value,
            "MIKAN_OFFICE_CONVERSATION": self.address.conversation_id,
            "MIKAN_GATEWAY_URL": f"http://127.0.0.1:{port}",
            "MIKAN_MODELS_URL": models_url,
            "MIKAN_TOKENS_DIR": str(self.root / "tokens"),
            "MIKAN_POD_NAME": f"a-{self.address.key}",
            "MIKAN_POD_UID": "a-uid",
            "MIKAN_NAMESPACE": self.cluster.namespace,
            "MIKAN_SANDBOX_MODE": "image:test",
            "MIKAN_SANDBOX_POD": f"s-{self.address.key}",
        }
