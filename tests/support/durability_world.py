"""A conversation whose gateway and agent are real processes, started anew whenever they die.

Everything is told by what a person sees: the console's feed, replayed.
"""

import asyncio
import contextlib
import json
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
from kubernetes.client import CustomObjectsApi

from agent_peers.models import Answer, Call, Hold, JsonObject, ModelsPeer, Refuse, Text
from durability_agent import REPORT, ROOT_VARIABLE
from forked import Forked, Mother
from gateway_doubles import KEY
from mikan_api.console import CONSOLE_PREFIX, ConsoleEvent
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.kill_points import VARIABLE
from mikan_api.tokens import OfficeClaims, issue_token
from mikan_gateway.rendering.renderer import CUT_OFF

TOKEN = "t" * 24
PATIENCE = 25.0


class _Pause(Hold):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def wait(self) -> None:
        await asyncio.sleep(self._seconds)


def _answer(request: JsonObject) -> Answer:
    """What the model says; a pause is as long as it takes for a draft to be shown."""
    last = request["messages"][-1]
    asked = next(m["content"] for m in reversed(request["messages"]) if m["role"] == "user").split("\n")[0]
    if last["role"] == "tool":
        return Answer([] if asked == "silently" else [Text("done")])
    match asked.split()[0]:
        case "slowly":
            return Answer([Text("You "), _Pause(0.15), Text("said: "), _Pause(0.15), Text(asked)])
        case "silently":
            return Answer([_Pause(0.5), Call("read", {"path": REPORT})])
        case "attach":
            return Answer([Call("attach", {"path": REPORT})])
        case "for-ever":
            return Answer([Text("on and on"), _Pause(3600)])
        case _:
            return Answer([Text(f"You said: {asked}")])


class _Plays(list[Answer | Refuse]):
    """A script without end."""

    def __init__(self, requests: list[JsonObject]) -> None:
        super().__init__()
        self._requests = requests

    def __bool__(self) -> bool:
        return True

    def pop(self, _index: Any = -1) -> Answer:
        return _answer(self._requests[-1])


class PlayedModels(ModelsPeer):
    """A models endpoint that answers by what is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.script = _Plays(self.requests)


class Supervised:
    """A process that is started again whenever it ends, from the second time on with nothing armed."""

    def __init__(self, mother: Mother, environment: dict[str, str], log: Path, point: str = "") -> None:
        self._mother, self._environment, self._log = mother, environment, log
        self._armed = {VARIABLE: point} if point else {}
        self._task: asyncio.Task[None] | None = None
        self._process: Forked | None = None
        self.ends: list[int] = []
        """How each of its lives ended."""
        self.ended = asyncio.Event()

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End it for good."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._process is not None:
            await self._process.end()

    async def _run(self) -> None:
        while True:
            self._process = await self._mother.fork(self._environment | self._armed, self._log)
            self.ends.append(await self._process.wait())
            self._armed = {}
            self.ended.set()


class Chat:
    """A person at the console: sends until it is taken, and sees what is shown."""

    def __init__(self, port: int, conversation: str) -> None:
        self._base = f"http://127.0.0.1:{port}{CONSOLE_PREFIX}/{conversation}"
        self._client = httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=10)
        self._shown: dict[str, ConsoleEvent] = {}
        self._draft = ""
        self._after = 0
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Chat":
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()

    async def say(self, message_id: str, text: str, file: bytes = b"") -> None:
        """Send a message, again and again until it is taken, as a platform delivers one."""
        body: dict[str, Any] = {"messageId": message_id, "userId": "ann", "text": text}
        if file:
            name = f"file-{message_id}"
            await self._until_taken(lambda: self._client.put(f"{self._base}/files/{name}", content=file), 201)
            body["attachments"] = [{"id": name, "name": "notes.txt"}]
        await self._until_taken(lambda: self._client.post(f"{self._base}/messages", json=body), 202)

    def replies(self, message_id: str) -> list[str]:
        """What stands below a message now; a file by its name."""
        return [e.text or e.file_name for e in self._shown.values() if e.reply_to == message_id]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until what is shown is so."""
        try:
            async with asyncio.timeout(PATIENCE), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            shown = [(e.reply_to, e.text[:60] or e.file_name) for e in self._shown.values()]
            raise AssertionError(f"{what} never came; shown: {shown}; draft: {self._draft[:60]!r}") from None

    async def answered(self, message_id: str, *texts: str) -> None:
        """Wait until this, or the notice of a cut, stands below a message."""

        def condition() -> bool:
            replies = self.replies(message_id)
            return CUT_OFF in replies or all(text in replies for text in texts)

        await self.until(condition, f"{texts} below {message_id}")

    async def drafted(self, text: str) -> None:
        """Wait until a text is streaming."""
        await self.until(lambda: text in self._draft or any(text in e.text for e in self._shown.values()), text)

    async def _until_taken(self, request: Callable[[], Any], status: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(httpx.TransportError):
                    response = await request()
                    if response.status_code == status:
                        return
                    assert response.status_code == 503, response.text
                await asyncio.sleep(0.02)

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(httpx.TransportError):
                async with self._client.stream("GET", f"{self._base}/events?after={self._after}") as response:
                    async for line in response.aiter_lines():
                        if line.strip():
                            await self._see(ConsoleEvent.model_validate_json(line))
            await asyncio.sleep(0.02)

    async def _see(self, event: ConsoleEvent) -> None:
        self._after = max(self._after, event.seq)
        match event.kind:
            case "draft":
                self._draft = event.text
            case "post" | "upload":
                assert event.message_id not in self._shown, "a message id was posted twice"
                self._shown[event.message_id] = event
            case "edit":
                known = self._shown[event.message_id]
                self._shown[event.message_id] = known.model_copy(update={"text": event.text})
            case "delete":
                self._shown.pop(event.message_id, None)
            case _:
                pass
        async with self._changed:
            self._changed.notify_all()


class DurableWorld:
    """One conversation and its processes."""

    def __init__(
        self,
        root: Path,
        mothers: tuple[Mother, Mother],
        offices: CustomObjectsApi,
        kubeconfig: Path,
        namespace: str,
        database_url: str = "",
    ) -> None:
        self.root, self._offices, self._namespace = root, offices, namespace
        self.address = OfficeAddress(Platform.CONSOLE, f"D{secrets.token_hex(4)}")
        self.port, self.console = _free_ports()
        self.models = PlayedModels()
        self._gateway_mother, self._agent_mother = mothers
        for name, content in {"settings.json": b"{}", "current": KEY, "token": TOKEN.encode()}.items():
            (root / name).write_bytes(content)
        self._gateway_environment = {
            "KUBECONFIG": str(kubeconfig),
            "MIKAN_NAMESPACE": namespace,
            "MIKAN_OFFICES_NAMESPACE": namespace,
            "MIKAN_SETTINGS_DIR": str(root),
            "MIKAN_KEYS_DIR": str(root),
            "MIKAN_LISTEN": f"127.0.0.1:{self.port}",
            "MIKAN_DATABASE_URL": database_url or f"sqlite+aiosqlite:///{root}/mikan.db",
            "MIKAN_SPOOL_DIR": str(root / "spool"),
            "MIKAN_CONSOLE_LISTEN": f"127.0.0.1:{self.console}",
            "MIKAN_CONSOLE_TOKEN_FILE": str(root / "token"),
        }
        self.gateway: Supervised
        self.agent: Supervised
        self.chat = Chat(self.console, self.address.conversation_id)

    @contextlib.asynccontextmanager
    async def running(self, point: str = "") -> AsyncIterator["DurableWorld"]:
        """The gateway runs; the agent once `wake` is called. ``point`` is armed in the process that has it."""
        async with self.models, self.chat:
            log = self.root / "log"
            gateway_point = point if point.startswith("gateway.") else ""
            self.gateway = Supervised(self._gateway_mother, self._gateway_environment, log, gateway_point)
            agent_point = point if point.startswith("agent.") else ""
            self.agent = Supervised(self._agent_mother, self._agent_environment(), log, agent_point)
            self.gateway.start()
            try:
                yield self
            finally:
                await self.agent.stop()
                await self.gateway.stop()

    async def wake(self) -> None:
        """Start the agent; its Office must exist."""
        office = await asyncio.to_thread(self._offices.get_namespaced_custom_object, *self._office)
        claims = OfficeClaims(self.address.key, office["metadata"]["uid"], 0)
        tokens = self.root / "tokens"
        tokens.mkdir()
        (tokens / "gateway").write_text(issue_token(KEY, "gateway", claims))
        (tokens / "models").write_text("a-token-for-models")
        self.agent.start()

    async def lose_the_agent(self) -> None:
        """End the agent for good; its Office says that there is another pod."""
        await self.agent.stop()
        status = {"status": {"agent": {"podName": f"a-{self.address.key}", "podUID": "another"}}}
        await asyncio.to_thread(self._offices.patch_namespaced_custom_object_status, *self._office, status)

    @property
    def _office(self) -> tuple[str, str, str, str, str]:
        return "mikan.dev", "v1alpha1", self._namespace, "offices", self.address.key

    async def killed(self) -> None:
        """Wait until the armed process has killed itself."""
        ends = [asyncio.create_task(process.ended.wait()) for process in (self.gateway, self.agent)]
        done, pending = await asyncio.wait(ends, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        assert done, f"the place was not reached\n{self.log}"

    @property
    def deaths(self) -> Sequence[int]:
        """How processes ended that nobody ended here."""
        return [*self.gateway.ends, *self.agent.ends]

    @property
    def log(self) -> str:
        """What the processes logged, warnings and worse."""
        lines = (self.root / "log").read_text().splitlines()
        return "\n".join(line for line in lines if not line.startswith("{") or json.loads(line)["level"] != "info")

    def _agent_environment(self) -> dict[str, str]:
        return {
            ROOT_VARIABLE: str(self.root),
            "MIKAN_OFFICE_PLATFORM": self.address.platform.value,
            "MIKAN_OFFICE_CONVERSATION": self.address.conversation_id,
            "MIKAN_GATEWAY_URL": f"http://127.0.0.1:{self.port}",
            "MIKAN_MODELS_URL": self.models.url,
            "MIKAN_TOKENS_DIR": str(self.root / "tokens"),
            "MIKAN_POD_NAME": f"a-{self.address.key}",
            "MIKAN_POD_UID": "a-uid",
            "MIKAN_NAMESPACE": self._namespace,
            "MIKAN_SANDBOX_MODE": "image:test",
            "MIKAN_SANDBOX_POD": f"s-{self.address.key}",
        }


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1]), int(other.getsockname()[1])


KILLED = -signal.SIGKILL
