"""Doubles for the gateway's seams, and an agent made of a real WebSocket client."""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from websockets.asyncio.client import ClientConnection, connect

from mikan_api.base import OpenModel
from mikan_api.identity import OfficeAddress, OfficeKey, Platform
from mikan_api.messaging import (
    Author,
    ConversationEvent,
    ConversationKind,
    ConversationMessage,
    MessagingInfo,
    TrustModel,
)
from mikan_api.responder import ResponderOperation
from mikan_api.session_keys import SessionKey
from mikan_api.settings import Budgets, DoorPolicy, Llm
from mikan_api.tokens import OfficeClaims, issue_token
from mikan_api.wire import Ack, Hello, Operation, Welcome, build_frame, parse_gateway_frame
from mikan_gateway.agents.server import server_config
from mikan_gateway.exceptions import ClusterError
from mikan_gateway.ports import Health, InboundMessage, OfficeView, RunRecord

KEY = b"k" * 32
TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def inbound(
    conversation: str = "C1",
    message_id: str = "m1",
    text: str = "hello",
    session: str | None = None,
    *,
    app: str = "",
    team: str = "",
) -> InboundMessage:
    """A message of a console conversation."""
    author = Author(id="U1", user_name="ann")
    event = ConversationEvent(
        platform=Platform.CONSOLE,
        conversation_id=conversation,
        conversation_kind=ConversationKind.DIRECT,
        session_key=SessionKey(session or conversation),
        message=ConversationMessage(id=message_id, author=author, text=text, time=TIME),
    )
    info = MessagingInfo(platform=Platform.CONSOLE, trust_model=TrustModel.MEMBERSHIP)
    return InboundMessage(event, info, True, app, team)


def posted(message_id: str, text: str = "answer") -> ConversationMessage:
    """A message of the bot's own."""
    return ConversationMessage(id=message_id, author=Author(id="bot", is_bot=True), text=text, time=TIME)


def key_of(conversation: str = "C1") -> OfficeKey:
    """The office of a console conversation."""
    return OfficeAddress(Platform.CONSOLE, conversation).key


class ManualClock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self._now = 1_000_000.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future

    @property
    def waiting(self) -> int:
        """How many sleep."""
        return len(self._sleepers)

    def advance(self, seconds: float) -> None:
        """Let time pass; sleepers that are due wake when the loop next runs."""
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                future.set_result(None)


class FakeOffices:
    """Offices of a cluster that does as the test says."""

    def __init__(self) -> None:
        self.views: dict[OfficeKey, OfficeView] = {}
        self.ensured: list[OfficeKey] = []
        self.touched: list[tuple[OfficeKey, int]] = []
        self.unreachable = False
        self.synced = True
        self.generation = itertools.count(1)
        self.changed = asyncio.Event()

    async def ensure(self, address: OfficeAddress, kind: ConversationKind, info: MessagingInfo) -> OfficeView:
        self.ensured.append(address.key)
        self.changed.set()
        if self.unreachable:
            raise ClusterError("connection refused")
        return self.views.get(address.key) or self.add(address)

    def add(self, address: OfficeAddress) -> OfficeView:
        """Make an office appear."""
        self.views[address.key] = OfficeView(
            key=address.key,
            uid=f"uid-{next(self.generation)}",
            token_epoch=0,
            address=address,
            llm=Llm(),
            budgets=Budgets(),
            door_policy=DoorPolicy(),
            auto_reply=False,
            suspended=False,
            ready=True,
            reason="Running",
            message="",
        )
        return self.views[address.key]

    def change(self, key: OfficeKey, **changes: Any) -> None:
        """Change a view."""
        self.views[key] = replace(self.views[key], **changes)

    def get(self, key: OfficeKey) -> OfficeView | None:
        return self.views.get(key)

    def touch(self, key: OfficeKey, running_sessions: int) -> None:
        self.touched.append((key, running_sessions))

    def health(self) -> Health:
        return Health(self.synced)

    def claims(self, key: OfficeKey) -> OfficeClaims:
        """What a valid token of an office says."""
        view = self.views[key]
        return OfficeClaims(key, view.uid, view.token_epoch)


class RecordingOutput:
    """Notes what people would see. ``failures`` are raised by `apply`, one a call."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.operations: list[ResponderOperation] = []
        self.deltas: list[tuple[str, int, str]] = []
        self.failures: list[Exception] = []
        self.broken: set[str] = set()
        """Types of operations that always fail by a fault of ours."""
        self.news = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def apply(self, run: RunRecord, number: int, operation: ResponderOperation) -> None:
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        if operation.type in self.broken:
            raise ValueError("bug")
        self.operations.append(operation)
        self._note(run.run_id, operation.type)

    def delta(self, run: RunRecord, offset: int, text: str) -> None:
        self.deltas.append((run.run_id, offset, text))
        self.news.set()

    async def cut_off(self, run: RunRecord) -> None:
        self._note(run.run_id, "cut_off")

    def expect(self, run: RunRecord) -> None:
        return None

    async def waiting(self, run: RunRecord, reason: str) -> None:
        self._note(run.run_id, f"waiting:{reason}")

    def of(self, run_id: str) -> list[str]:
        """What was seen of a run."""
        return [what for seen, what in self.seen if seen == run_id]

    async def until(self, count: int) -> list[tuple[str, str]]:
        """Wait until so much was seen."""
        while len(self.seen) < count:
            self.news.clear()
            await self.news.wait()
        return self.seen

    async def until_seen(self, run_id: str, what: str) -> list[str]:
        """Wait until something was seen of a run; all that was."""
        while what not in self.of(run_id):
            self.news.clear()
            await self.news.wait()
        return self.of(run_id)

    async def until_delta(self) -> None:
        while not self.deltas:
            self.news.clear()
            await self.news.wait()

    def _note(self, run_id: str, what: str) -> None:
        self.seen.append((run_id, what))
        self.news.set()


class NoBlobs:
    """A spool that notes what was discarded."""

    def __init__(self) -> None:
        self.discarded: list[str] = []

    async def discard_blob(self, office: OfficeKey, blob_id: str) -> None:
        self.discarded.append(blob_id)

    async def discard_attachment(self, office: OfficeKey, attachment_id: str) -> None:
        self.discarded.append(attachment_id)


class FakeLink:
    """A connection that notes what is sent."""

    def __init__(self, claims: OfficeClaims, incarnation: str = "i1") -> None:
        self._claims, self._incarnation = claims, incarnation
        self.frames: list[Any] = []
        self.closed: tuple[int, str] | None = None
        self.wakes = 0

    @property
    def claims(self) -> OfficeClaims:
        return self._claims

    @property
    def incarnation(self) -> str:
        return self._incarnation

    def wake(self) -> None:
        self.wakes += 1

    def send(self, frame: OpenModel) -> None:
        self.frames.append(frame)

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)

    def hello(self, log_number: int = 0, runs: tuple[str, ...] = (), pod_uid: str = "pod-1") -> Hello:
        """What this agent says first."""
        return Hello(pod_name="a-x", pod_uid=pod_uid, incarnation=self._incarnation, log_number=log_number, runs=runs)


class RunningServer:
    """uvicorn on a free port of the loopback, in the test's own loop."""

    def __init__(self, app: ASGIApp) -> None:
        self._server = uvicorn.Server(server_config(app, "127.0.0.1", 0))
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "RunningServer":
        # Not serve(), which would take the test runner's signal handlers.
        config = self._server.config
        config.load()
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup()
        self._task = asyncio.create_task(self._server.main_loop())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        await self._server.shutdown()

    @property
    def port(self) -> int:
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}"


class WireAgent:
    """An agent reduced to its socket. Frames are kept in the order they came."""

    def __init__(self, socket: ClientConnection, incarnation: str) -> None:
        self.socket, self.incarnation = socket, incarnation
        self.number = 0

    async def hello(self, log_number: int = 0, runs: tuple[str, ...] = (), pod_uid: str = "pod-1") -> Welcome:
        """Say hello; the welcome."""
        hello = Hello(pod_name="a-x", pod_uid=pod_uid, incarnation=self.incarnation, log_number=log_number, runs=runs)
        await self.socket.send(build_frame(hello))
        welcome = await self.receive()
        assert isinstance(welcome, Welcome)
        self.number = welcome.operation_number
        return welcome

    async def receive(self) -> Any:
        """The next frame."""
        return parse_gateway_frame(await self.socket.recv())

    async def until(self, kind: type[Any]) -> Any:
        """The next frame of a kind; others are dropped."""
        while True:
            frame = await self.receive()
            if isinstance(frame, kind):
                return frame

    async def report(self, run_id: str, operation: ResponderOperation, number: int | None = None) -> int:
        """Send an operation under the next number, or a given one."""
        self.number = self.number + 1 if number is None else number
        await self.socket.send(build_frame(Operation(number=self.number, run_id=run_id, operation=operation)))
        return self.number

    async def acknowledged(self, number: int) -> None:
        """Wait until operations up to a number are durable."""
        while (await self.until(Ack)).number < number:
            pass


@contextlib.asynccontextmanager
async def dial(
    server: RunningServer, claims: OfficeClaims, incarnation: str = "i1", *, key: bytes = KEY, path_key: str = ""
) -> AsyncIterator[WireAgent]:
    """Connect as an office's agent."""
    token = issue_token(key, "gateway", claims)
    url = f"{server.ws}/agent/v1/offices/{path_key or claims.office}"
    headers = {"Authorization": f"Bearer {token}"}
    async with connect(url, additional_headers=headers, proxy=None, compression=None, close_timeout=1) as socket:
        yield WireAgent(socket, incarnation)
