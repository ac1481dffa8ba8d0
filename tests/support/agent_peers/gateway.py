"""A gateway that keeps to `mikan_api.wire` to the letter, remembers every breach, and can cut at any frame."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as HttpRequest
from websockets.http11 import Response

from agent_peers import http
from mikan_api.base import OpenModel
from mikan_api.messaging import LogEntry
from mikan_api.responder import ResponderOperation, RunFinished, RunOutcome, RunStarted
from mikan_api.wire import (
    Ack,
    Answer,
    Delta,
    Hello,
    LogBatch,
    LogWritten,
    Operation,
    Query,
    Run,
    RunRequest,
    Welcome,
    build_frame,
    parse_agent_frame,
)

TOKEN = "a-token-of-this-office"
PATIENCE = 20.0
"""Seconds after which what a test waits for will not come."""


@dataclass
class Incarnation:
    """What one agent process has made durable."""

    last: int = 0


@dataclass
class Seen:
    """The record that tests compare with."""

    operations: list[tuple[str, ResponderOperation]] = field(default_factory=list)
    hellos: list[Hello] = field(default_factory=list)
    deltas: list[Delta] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)
    repeated: int = 0
    """Operations that came again after a cut."""


@dataclass(frozen=True)
class CutAt:
    """Cut once, at the frame of this number (from 0) in one direction.

    ``moment``: ``received`` = it is lost on its way to us; ``committed`` = durable, but its acknowledgement is lost;
    ``sent`` = lost on its way to the agent.
    """

    moment: str
    frame: int


class GatewayPeer:
    """The gateway of one office."""

    def __init__(self, office: str, *, cut: CutAt | None = None) -> None:
        self.office = office
        self.seen = Seen()
        self.cut = cut
        self.runs: dict[str, RunRequest] = {}
        self.log: list[LogEntry] = []
        self.log_written = 0
        self.attachments: dict[str, bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self.refusal: int | None = None
        self.token = TOKEN
        self.url = ""
        self.connections = 0
        self._started: set[str] = set()
        self._over: set[str] = set()
        self._incarnations: dict[str, Incarnation] = {}
        self._changed = asyncio.Condition()
        self._frames = {"received": 0, "sent": 0}
        self._socket: ServerConnection | None = None
        self._sending = asyncio.Lock()
        self._websockets: Server | None = None
        self._front: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._questions = 0
        self._flows: list[asyncio.Event] = []

    async def __aenter__(self) -> "GatewayPeer":
        self._websockets = await serve(self._serve, "127.0.0.1", 0, process_request=self._admit, compression=None)
        self._front = await asyncio.start_server(self._switch, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._front.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._websockets is not None
        assert self._front is not None
        self._front.close()
        for task in list(self._pipes):
            task.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)
        self._websockets.close()
        await self._websockets.wait_closed()

    # What tests do

    async def deliver(self, request: RunRequest) -> None:
        """Queue a run, and send it where an agent is connected."""
        self.runs[request.run_id] = request
        await self.send(Run(run=request))

    async def add_to_log(self, entry: LogEntry) -> None:
        """Number a message, and send it where an agent is connected."""
        self.log.append(entry)
        await self.send(LogBatch(entries=(entry,)))

    async def send(self, frame: OpenModel) -> None:
        """Send a frame; lost where nobody is connected."""
        if self._socket is not None:
            await self._send(self._socket, frame)

    async def send_raw(self, text: str) -> None:
        """Send what may be no frame at all."""
        assert self._socket is not None
        await self._socket.send(text)

    @property
    def connected(self) -> bool:
        """Whether an agent has been welcomed and is there."""
        return self._socket is not None

    async def round_trip(self) -> None:
        """Wait until the agent has dealt with every frame that was sent before."""
        self._questions += 1
        identity = f"round-trip-{self._questions}"
        await self.send(Query(id=identity, method="sessions"))
        await self.until(lambda: any(answer.id == identity for answer in self.seen.answers))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on `seen` holds."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(condition)

    async def finished(self, run_id: str) -> RunFinished:
        """Wait for a run's end."""
        await self.until(lambda: any(isinstance(o, RunFinished) for o in self.operations(run_id)))
        return next(o for o in self.operations(run_id) if isinstance(o, RunFinished))

    def operations(self, run_id: str) -> list[ResponderOperation]:
        """A run's operations, in order."""
        return [operation for run, operation in self.seen.operations if run == run_id]

    def abort(self) -> None:
        """Cut the connection as a dead network would, without a word."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def close(self, code: int) -> None:
        """Close in order, with a reason."""
        assert self._socket is not None
        await self._socket.close(code, "for a reason")

    def freeze(self) -> None:
        """From here on nothing passes on the connections that are open, in either direction; none is closed."""
        for flow in self._flows:
            flow.clear()

    # HTTP

    async def _switch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        task.add_done_callback(self._pipes.discard)
        try:
            while (head := await http.read_head(reader)) is not None:
                if head.headers.get("upgrade"):
                    await self._pipe(head, reader, writer)
                    return
                writer.write(await self._bytes(head, reader))
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.transport.abort()

    async def _bytes(self, head: http.Head, reader: asyncio.StreamReader) -> bytes:
        body = await http.read_body(reader, head)
        if head.headers.get("authorization") != f"Bearer {self.token}":
            return http.response(401)
        *prefix, kind, name = head.path.split("/")
        if "/".join(prefix) != f"/agent/v1/offices/{self.office}":
            return http.response(404)
        if kind == "blobs" and head.method == "PUT":
            self.blobs[name] = body
            return http.response(204)
        content = self.attachments.get(name) if kind == "attachments" else None
        return http.response(404) if content is None else http.response(200, content)

    async def _pipe(self, head: http.Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._websockets is not None
        port = next(iter(self._websockets.sockets)).getsockname()[1]
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        inner_writer.write(head.raw)
        flow = asyncio.Event()
        flow.set()
        self._flows.append(flow)
        directions = [
            asyncio.create_task(_copy(reader, inner_writer, flow)),
            asyncio.create_task(_copy(inner_reader, writer, flow)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            inner_writer.transport.abort()

    # WebSocket

    def _admit(self, connection: ServerConnection, request: HttpRequest) -> Response | None:
        self.connections += 1
        if self.refusal is not None:
            return connection.respond(self.refusal, "this office's token was revoked\n")
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return connection.respond(401, "wrong token\n")
        if request.path != f"/agent/v1/offices/{self.office}":
            return connection.respond(404, "no such office\n")
        return None

    async def _serve(self, socket: ServerConnection) -> None:
        try:
            hello = parse_agent_frame(await socket.recv())
            if not isinstance(hello, Hello):
                self.seen.breaches.append("the first frame is no hello")
                return
            await self._resume(socket, hello)
            async for message in socket:
                await self._receive(socket, hello.incarnation, message)
        except ConnectionClosed:
            return
        finally:
            if self._socket is socket:
                self._socket = None
            await self._tell()

    async def _resume(self, socket: ServerConnection, hello: Hello) -> None:
        self.seen.hellos.append(hello)
        incarnation = self._incarnations.setdefault(hello.incarnation, Incarnation())
        await self._send(socket, Welcome(operation_number=incarnation.last))
        missing = tuple(entry for entry in self.log if entry.number > hello.log_number)
        if missing:
            await self._send(socket, LogBatch(entries=missing))
        for run_id, request in self.runs.items():
            if run_id not in hello.runs and run_id not in self._started | self._over:
                await self._send(socket, Run(run=request))
        self._socket = socket
        await self._tell()

    async def _receive(self, socket: ServerConnection, incarnation: str, message: str | bytes) -> None:
        frame = parse_agent_frame(message)
        if self._cuts("received"):
            socket.transport.abort()
            return
        match frame:
            case Operation():
                await self._commit(socket, self._incarnations[incarnation], frame)
            case Delta():
                self._show(frame)
            case LogWritten():
                self.log_written = max(self.log_written, frame.number)
            case Answer():
                self.seen.answers.append(frame)
            case _:
                self.seen.breaches.append(f"a second {frame.type}")
        await self._tell()

    async def _commit(self, socket: ServerConnection, incarnation: Incarnation, frame: Operation) -> None:
        if frame.number > incarnation.last + 1:
            self.seen.breaches.append(f"operation {frame.number} after {incarnation.last}")
            await socket.close(1008, "gap")
            return
        if frame.number <= incarnation.last:
            self.seen.repeated += 1
        else:
            incarnation.last = frame.number
            self._keep(frame)
        if self.cut is not None and self.cut.moment == "committed" and self.cut.frame == frame.number - 1:
            self.cut = None
            socket.transport.abort()
            return
        await self._send(socket, Ack(number=incarnation.last))

    def _keep(self, frame: Operation) -> None:
        if frame.run_id in self._over:
            self.seen.breaches.append(f"{frame.operation.type} after the end of {frame.run_id}")
        self.seen.operations.append((frame.run_id, frame.operation))
        if isinstance(frame.operation, RunStarted):
            self._started.add(frame.run_id)
        if isinstance(frame.operation, RunFinished) and frame.operation.outcome is not RunOutcome.HANDED_BACK:
            self._over.add(frame.run_id)

    def _show(self, delta: Delta) -> None:
        self.seen.deltas.append(delta)
        text = self.seen.texts.get(delta.run_id, "")
        if delta.offset not in {0, len(text)}:
            self.seen.breaches.append(f"delta at {delta.offset}, {len(text)} characters are shown")
        self.seen.texts[delta.run_id] = text[: delta.offset] + delta.text

    async def _send(self, socket: ServerConnection, frame: OpenModel) -> None:
        async with self._sending:
            if self._cuts("sent"):
                socket.transport.abort()
                return
            try:
                await socket.send(build_frame(frame))
            except ConnectionClosed:
                return

    def _cuts(self, moment: str) -> bool:
        number = self._frames[moment]
        self._frames[moment] += 1
        if self.cut is None or self.cut.moment != moment or self.cut.frame != number:
            return False
        self.cut = None
        return True

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: asyncio.Event) -> None:
    while data := await reader.read(65536):
        await flow.wait()
        writer.write(data)
        await writer.drain()
