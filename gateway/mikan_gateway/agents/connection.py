"""One agent's WebSocket: frames in, frames out, and an end for a reason.

Three tasks: one reads, one commits what was read (whatever has come meanwhile in one go), one writes. Requests are
answered beside them, since one may wait for the API server. What is to be written is state rather than a queue (the
last acknowledgement, the log from a number on, what is deliverable), so a slow reader costs no memory.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from mikan_api.base import OpenModel
from mikan_api.identity import OfficeKey
from mikan_api.kill_points import Step, around
from mikan_api.messaging import LogEntry
from mikan_api.tokens import OfficeClaims
from mikan_api.wire import (
    MAX_REQUESTS,
    PROTOCOL,
    Ack,
    Answer,
    Delta,
    Hello,
    InvalidFrame,
    LogBatch,
    LogWritten,
    Operation,
    Reply,
    Request,
    Reset,
    Run,
    Stop,
    Welcome,
    build_frame,
    parse_agent_frame,
)
from mikan_gateway import close_codes as codes
from mikan_gateway.agents.allowance import Allowance
from mikan_gateway.exceptions import AgentRefused, StorageError

logger = logging.getLogger(__name__)

HELLO_TIMEOUT = 10.0
CLOSE_TIMEOUT = 2.0
MAX_CONTROL = 1_000
"""Frames other than log, runs and acknowledgements that may wait for a slow agent."""
MAX_COMMIT = 200
"""Operations in one commit."""
MAX_UNCOMMITTED = 1_000
"""Operations read and not yet committed; reading waits above it."""
_SENDING: Mapping[type[OpenModel], Step] = {
    Welcome: Step.AGENT_WELCOME,
    Ack: Step.REPORT_ACKNOWLEDGE,
    LogBatch: Step.LOG_SEND,
    Run: Step.RUN_SEND,
    Stop: Step.STOP_SEND,
    Reset: Step.RESET_SEND,
    Reply: Step.REPLY_SEND,
}


class Desk(Protocol):
    """What the connection serves (`mikan_gateway.runtime.desk.AgentDesk`)."""

    async def attach(self, link: "AgentConnection", claims: OfficeClaims, hello: Hello) -> int: ...

    def detach(self, link: "AgentConnection") -> None: ...

    async def log_after(self, office: OfficeKey, number: int) -> tuple[LogEntry, ...]: ...

    def take(self, link: "AgentConnection", log_number: int) -> list[OpenModel]: ...

    async def commit(self, link: "AgentConnection", operations: list[Operation]) -> int: ...

    def delta(self, link: "AgentConnection", delta: Delta) -> None: ...

    async def answered(self, link: "AgentConnection", answer: Answer) -> None: ...

    async def request(self, link: "AgentConnection", request: Request) -> Reply: ...

    async def fetched(self, link: "AgentConnection", attachment_ids: Sequence[str]) -> None: ...

    def written(self, link: "AgentConnection", number: int) -> None: ...


class AgentConnection:
    """Implements the runtime's `AgentLink` over an accepted WebSocket."""

    def __init__(self, socket: WebSocket, claims: OfficeClaims, desk: Desk) -> None:
        self._socket, self._claims, self._desk = socket, claims, desk
        self._allowance = Allowance(time.monotonic())
        self._hello: Hello | None = None
        self._wake = asyncio.Event()
        self._control: deque[OpenModel] = deque()
        self._acknowledged, self._ack_sent = 0, 0
        self._log_sent = 0
        self._files_sent: deque[tuple[int, str]] = deque()
        """Log number and id of each attachment that the agent has been told of and may not have yet."""
        self._uncommitted: deque[Operation | Answer] = deque()
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._requests: dict[str, asyncio.Task[None]] = {}
        self._ending: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()

    @property
    def claims(self) -> OfficeClaims:
        return self._claims

    @property
    def incarnation(self) -> str:
        return "" if self._hello is None else self._hello.incarnation

    def wake(self) -> None:
        self._wake.set()

    def send(self, frame: OpenModel) -> None:
        """Send a frame in turn. An agent that reads so slowly that too many wait is dropped."""
        if len(self._control) >= MAX_CONTROL:
            self.close(codes.TRY_AGAIN_LATER, "this agent does not read")
            return
        self._control.append(frame)
        self._wake.set()

    def close(self, code: int, reason: str) -> None:
        """End the connection soon. The first reason counts."""
        if not self._ending.done():
            self._ending.set_result((code, reason))

    async def serve(self) -> None:
        """Serve until either side ends it."""
        parts = [asyncio.create_task(self._ends_for_a_reason(self._converse()))]
        try:
            code, reason = await self._ending
        finally:
            self._desk.detach(self)
            parts += self._requests.values()
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
        logger.info("agent disconnected", extra={"office": self._claims.office, "code": code, "reason": reason})
        await self._say_goodbye(code, reason)

    async def _converse(self) -> None:
        async with asyncio.timeout(HELLO_TIMEOUT):
            hello = parse_agent_frame(await self._receive())
        if not isinstance(hello, Hello):
            raise AgentRefused(codes.PROTOCOL_FAULT, "the first frame is no hello")
        if hello.protocol != PROTOCOL:
            raise AgentRefused(codes.PROTOCOL_FAULT, f"this gateway speaks protocol {PROTOCOL}, not {hello.protocol}")
        self._hello = hello
        self._log_sent = hello.log_number
        number = await self._desk.attach(self, self._claims, hello)
        self._acknowledged = self._ack_sent = number
        logger.info("agent connected", extra={"office": self._claims.office, "pod": hello.pod_name[:253]})
        await self._write(Welcome(operation_number=number))
        self._wake.set()
        async with asyncio.TaskGroup() as tasks:
            for part in (self._read(), self._commit(), self._write_for_ever()):
                tasks.create_task(self._ends_for_a_reason(part))

    async def _ends_for_a_reason(self, part: Coroutine[Any, Any, None]) -> None:
        """Turn every way in which a part can fail into a close code."""
        try:
            await part
        except AgentRefused as error:
            self.close(error.code, str(error))
        except InvalidFrame as error:
            self.close(codes.PROTOCOL_FAULT, f"a frame that is not of the protocol: {error}")
        except TimeoutError:
            self.close(codes.PROTOCOL_FAULT, "no hello came")
        except StorageError as error:
            self.close(codes.TRY_AGAIN_LATER, str(error))
        except WebSocketDisconnect as error:
            self.close(error.code, "the agent is gone")
        except Exception:
            logger.exception("an agent's connection failed", extra={"office": self._claims.office})
            self.close(1011, "internal error")

    async def _receive(self) -> str:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1006))
        text: str | None = message.get("text")
        if text is None:
            raise AgentRefused(codes.PROTOCOL_FAULT, "a binary frame")
        if not self._allowance.take(len(text), time.monotonic()):
            raise AgentRefused(codes.FLOOD, "too many frames")
        return text

    async def _read(self) -> None:
        while True:
            frame = parse_agent_frame(await self._receive())
            match frame:
                case Delta():
                    self._desk.delta(self, frame)
                case Operation() | Answer():
                    await self._take_in(frame)
                case Request():
                    self._answer_aside(frame)
                case LogWritten():
                    await self._log_written(frame.number)
                case Hello():
                    raise AgentRefused(codes.PROTOCOL_FAULT, "a second hello")

    def _answer_aside(self, request: Request) -> None:
        """Have a request answered; one that is repeated while it is under way is answered once."""
        if request.id in self._requests:
            return
        if len(self._requests) >= MAX_REQUESTS:
            self.send(Reply(id=request.id, error="too many requests at once; ask again later"))
            return
        task = asyncio.create_task(self._ends_for_a_reason(self._answer(request)))
        self._requests[request.id] = task
        task.add_done_callback(lambda _: self._requests.pop(request.id, None))

    async def _answer(self, request: Request) -> None:
        self.send(await self._desk.request(self, request))

    async def _log_written(self, number: int) -> None:
        """The agent fetches an entry's files before it writes the entry."""
        fetched: list[str] = []
        while self._files_sent and self._files_sent[0][0] <= number:
            fetched.append(self._files_sent.popleft()[1])
        self._desk.written(self, number)
        if fetched:
            await self._desk.fetched(self, fetched)

    async def _take_in(self, frame: Operation | Answer) -> None:
        while len(self._uncommitted) >= MAX_UNCOMMITTED:
            self._room.clear()
            await self._room.wait()
        self._uncommitted.append(frame)
        self._arrived.set()

    async def _commit(self) -> None:
        while True:
            self._arrived.clear()
            if not self._uncommitted:
                await self._arrived.wait()
            operations = self._next_operations()
            self._room.set()
            if operations:
                self._acknowledged = await self._desk.commit(self, operations)
                self._wake.set()
            elif self._uncommitted and isinstance(answer := self._uncommitted[0], Answer):
                self._uncommitted.popleft()
                await self._desk.answered(self, answer)

    def _next_operations(self) -> list[Operation]:
        """The operations at the front, as many as one commit takes."""
        operations: list[Operation] = []
        while self._uncommitted and len(operations) < MAX_COMMIT and isinstance(self._uncommitted[0], Operation):
            operation = self._uncommitted.popleft()
            assert isinstance(operation, Operation)  # noqa: S101  looked at above
            operations.append(operation)
        return operations

    async def _write_for_ever(self) -> None:
        while True:
            self._wake.clear()
            while await self._write_next():
                pass
            await self._wake.wait()

    async def _write_next(self) -> bool:
        """Write what comes first now; ``False`` if there is nothing."""
        if self._acknowledged > self._ack_sent:
            self._ack_sent = self._acknowledged
            await self._write(Ack(number=self._ack_sent))
        elif self._control:
            await self._write(self._control.popleft())
        elif entries := await self._desk.log_after(self._claims.office, self._log_sent):
            gone = entries[0].number - 1 if entries[0].number > self._log_sent + 1 else 0
            self._log_sent = entries[-1].number
            self._files_sent.extend(
                (entry.number, file.id) for entry in entries if not entry.from_bot for file in entry.message.attachments
            )
            await self._write(LogBatch(entries=entries, after=gone))
        elif frames := self._desk.take(self, self._log_sent):
            for frame in frames:
                await self._write(frame)
        else:
            return False
        return True

    async def _write(self, frame: OpenModel) -> None:
        step = _SENDING.get(type(frame))
        with around(step) if step else nullcontext():
            await self._socket.send_text(build_frame(frame))

    async def _say_goodbye(self, code: int, reason: str) -> None:
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._socket.close(
                    code if code not in {1005, 1006} else 1000, reason.encode()[:120].decode(errors="ignore")
                )
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            logger.debug("the agent is gone already", extra={"office": self._claims.office})
