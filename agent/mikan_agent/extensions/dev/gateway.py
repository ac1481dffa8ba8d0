"""The gateway of one conversation at a terminal: as much of `mikan_api.wire` as an agent needs to be served."""

import asyncio
import hmac
import secrets
from collections.abc import Callable
from datetime import UTC, datetime

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from mikan_api.base import OpenModel
from mikan_api.identity import OfficeAddress
from mikan_api.messaging import (
    Author,
    ConversationEvent,
    ConversationKind,
    ConversationMessage,
    LogEntry,
    MessagingInfo,
    TrustModel,
)
from mikan_api.responder import (
    DeleteResponse,
    Diagnostic,
    ReplaceResponse,
    Respond,
    ResponderOperation,
    RunFinished,
    RunOutcome,
    ToolStatus,
    Working,
)
from mikan_api.session_keys import SessionKey
from mikan_api.settings import Budgets, DoorPolicy, Llm
from mikan_api.wire import (
    MAX_FRAME,
    Ack,
    Answer,
    Drain,
    Hello,
    LogBatch,
    Operation,
    Reset,
    Run,
    RunRequest,
    Stop,
    Welcome,
    build_frame,
    parse_agent_frame,
)

START_SECONDS = 30.0
MARKS = {"running": "⚙", "done": "✓", "failed": "✗"}


class TerminalGateway:
    """Serves the agent of one conversation; ``show`` is told each line that people would see."""

    def __init__(self, address: OfficeAddress, llm: Llm, budgets: Budgets, show: Callable[[str], None]) -> None:
        self._address, self._llm, self._budgets, self._show = address, llm, budgets, show
        self._session = SessionKey(address.conversation_id)
        self.token = secrets.token_hex(32)
        self._server: Server | None = None
        self._socket: ServerConnection | None = None
        self._connected = asyncio.Event()
        self._seen = 0
        self._log_number = 0
        self._running: str | None = None
        self._text = ""
        self._over = asyncio.Event()
        self._reset = asyncio.Event()

    async def __aenter__(self) -> "TerminalGateway":
        self._server = await serve(
            self._serve, "127.0.0.1", 0, process_request=self._admit, max_size=MAX_FRAME, compression=None
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Where the agent dials."""
        assert self._server is not None  # noqa: S101  only asked for while it serves
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def running(self) -> bool:
        """Whether an answer is under way."""
        return self._running is not None

    async def say(self, text: str) -> None:
        """Send a message, and wait until the run that it makes is over."""
        await asyncio.wait_for(self._connected.wait(), START_SECONDS)
        self._log_number += 1
        message = ConversationMessage(
            id=f"m{self._log_number}",
            author=Author(id="you", user_name="you", display_name="You"),
            text=text,
            time=datetime.now(UTC),
        )
        self._running, self._text = f"run-{self._log_number}", ""
        self._over.clear()
        await self._send(LogBatch(entries=(LogEntry(number=self._log_number, message=message),)))
        await self._send(Run(run=self._request(self._running, message)))
        await self._over.wait()

    async def stop(self) -> None:
        """End the answer that is under way."""
        if self._running is not None:
            await self._send(Stop(run_id=self._running))

    async def new(self) -> None:
        """Begin a fresh session."""
        await asyncio.wait_for(self._connected.wait(), START_SECONDS)
        self._reset.clear()
        await self._send(Reset(id=secrets.token_hex(8), session_key=self._session, log_number=self._log_number))
        await self._reset.wait()

    async def drain(self) -> None:
        """Have the agent end when it has nothing left to do."""
        if self._socket is not None:
            await self._send(Drain())

    def _request(self, run_id: str, message: ConversationMessage) -> RunRequest:
        return RunRequest(
            run_id=run_id,
            session_key=self._session,
            event=ConversationEvent(
                platform=self._address.platform,
                conversation_id=self._address.conversation_id,
                conversation_kind=ConversationKind.DIRECT,
                session_key=self._session,
                message=message,
            ),
            log_number=self._log_number,
            info=MessagingInfo(platform=self._address.platform, trust_model=TrustModel.MEMBERSHIP),
            llm=self._llm,
            budgets=self._budgets,
            door_policy=DoorPolicy(),
            queued_at=message.time,
        )

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        given = request.headers.get("Authorization", "")
        if hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            return None
        return connection.respond(401, "not this office's token\n")

    async def _serve(self, socket: ServerConnection) -> None:
        try:
            hello = parse_agent_frame(await socket.recv())
            if not isinstance(hello, Hello):
                return
            self._socket, self._log_number = socket, max(self._log_number, hello.log_number)
            await self._send(Welcome(operation_number=self._seen))
            self._connected.set()
            async for data in socket:
                await self._receive(parse_agent_frame(data))
        except ConnectionClosed:
            pass
        finally:
            self._socket = None
            self._connected.clear()

    async def _receive(self, frame: OpenModel) -> None:
        match frame:
            case Operation(number=number, operation=operation):
                if number > self._seen:
                    self._seen = number
                    self._render(operation)
                await self._send(Ack(number=number))
            case Answer(error=error):
                if error:
                    self._show(f"! {error}")
                self._reset.set()
            case _:
                pass  # streamed text: the whole follows

    def _render(self, operation: ResponderOperation) -> None:
        match operation:
            case ToolStatus(label=label, state=state):
                self._show(f"{MARKS[state]} {label}")
            case Working(label=label) if label:
                self._show(f"⏳ {label}")
            case Diagnostic(text=text):
                self._show(f"! {text}")
            case Respond(text=text) | ReplaceResponse(text=text):
                self._text = text
            case DeleteResponse():
                self._text = ""
            case RunFinished(outcome=outcome):
                self._finish(outcome)
            case _:
                pass

    def _finish(self, outcome: RunOutcome) -> None:
        if self._text:
            self._show(self._text)
        if outcome is RunOutcome.STOPPED:
            self._show("(stopped)")
        self._running = None
        self._over.set()

    async def _send(self, frame: OpenModel) -> None:
        if self._socket is not None:
            await self._socket.send(build_frame(frame))
