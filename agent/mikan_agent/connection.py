"""The WebSocket to the gateway: dialled for ever, resumed by numbers (`mikan_api.wire`).

Owns when to dial, what is sent again and in which order. What a frame means is the handler's affair. Nothing here
depends on a connection's life: operations wait in the `Outbox`, streamed text is shown anew after a cut.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from mikan_agent.answer_text import AnswerText
from mikan_agent.backoff import Backoff
from mikan_agent.clock import Clock
from mikan_agent.exceptions import GatewayRefused, TokenUnreadable
from mikan_agent.outbox import Outbox
from mikan_agent.tokens import TokenSource, bearer
from mikan_api.base import OpenModel
from mikan_api.kill_points import Step, around
from mikan_api.logs import mask
from mikan_api.wire import (
    MAX_FRAME,
    PROTOCOL,
    Answer,
    Delta,
    Hello,
    InvalidFrame,
    LogWritten,
    Operation,
    Request,
    Welcome,
    build_frame,
    parse_gateway_frame,
)

logger = logging.getLogger(__name__)

PING_INTERVAL = 10.0
PING_TIMEOUT = 15.0
"""A half-open socket is noticed within the sum of the two."""
OPEN_TIMEOUT = 10.0
WELCOME_TIMEOUT = 15.0
RETRY = Backoff(0.2, 4.0)
"""Of a gateway that restarts: answers and messages wait for this dial, so the longest wait is short."""
REFUSED_RETRY = Backoff(10.0, 60.0)
_CLOSED_FOR_LONG = frozenset({4401, 4409, 4429})
"""Close codes of the gateway: token refused, another agent has taken over, flood. Dialling soon would not help, and two
agents that take over from each other would never end."""
_SENDING: Mapping[type[OpenModel], Step] = {
    Operation: Step.OPERATION_SEND,
    LogWritten: Step.LOG_ACKNOWLEDGE,
    Answer: Step.ANSWER_SEND,
    Delta: Step.TEXT_SEND,
    Request: Step.REQUEST_SEND,
}
STEADY = 10.0
"""Seconds after which a connection counts as a good one, and the next dial starts with a short wait again."""


class FrameHandler(Protocol):
    """What the rest of the agent does with the gateway's frames."""

    def hello(self) -> Hello:
        """The first frame of a connection, as things stand."""

    async def receive(self, frame: OpenModel) -> None:
        """A frame after the `Welcome`, in order. Must not wait for a run."""

    async def acknowledged(self, number: int) -> None:
        """Operations up to ``number`` are durable."""

    def news(self) -> list[OpenModel]:
        """What else the gateway lacks: what may have changed since the hello, and what it has not answered."""

    def texts(self) -> list[AnswerText]:
        """The answers that are streaming now."""


class Connection:
    """Keeps one connection alive and the order of what is sent on it."""

    def __init__(
        self,
        url: str,
        token: TokenSource,
        outbox: Outbox,
        handler: FrameHandler,
        clock: Clock,
        *,
        retry: Backoff = RETRY,
        refused_retry: Backoff = REFUSED_RETRY,
    ) -> None:
        self._url = url.replace("http", "ws", 1)
        self._token, self._outbox, self._handler, self._clock = token, outbox, handler, clock
        self._retry, self._refused_retry = retry, refused_retry
        self._outgoing: deque[OpenModel | AnswerText] = deque()
        self._wake = asyncio.Event()
        self._welcomed = False
        self._socket: ClientConnection | None = None
        outbox.listener = self.send

    @property
    def connected(self) -> bool:
        """Whether the gateway has welcomed us and the socket stands."""
        return self._welcomed

    def send(self, frame: OpenModel) -> None:
        """Send a frame after those before it; dropped where there is no connection (operations are kept elsewhere)."""
        if self._welcomed:
            self._outgoing.append(frame)
            self._wake.set()

    def show(self, text: AnswerText) -> None:
        """Send what is new of an answer when its turn comes; many calls make one frame."""
        if self._welcomed and text not in self._outgoing:
            self._outgoing.append(text)
            self._wake.set()

    async def run(self) -> None:
        """Dial, serve, and dial again until cancelled."""
        attempt = 0
        while True:
            began = self._clock.monotonic()
            backoff = self._retry
            try:
                await self._connect()
            except (GatewayRefused, TokenUnreadable) as error:
                backoff = self._refused_retry
                logger.error("the gateway cannot be used: %s", error, extra={"url": self._url})
            except ConnectionClosed as error:
                code = error.rcvd.code if error.rcvd else 0
                backoff = self._refused_retry if code in _CLOSED_FOR_LONG else backoff
                logger.warning("the gateway closed the connection: %s", _reason(error), extra={"code": code})
            except (OSError, TimeoutError, InvalidHandshake, InvalidFrame) as error:
                logger.warning("no connection to the gateway: %s", _reason(error), extra={"url": self._url})
            except Exception:
                # Runs go on without a connection; ending the process would cut them.
                logger.exception("the connection to the gateway broke on an error of ours")
            finally:
                self._welcomed = False
            attempt = 0 if self._clock.monotonic() - began > STEADY else attempt + 1
            await self._clock.sleep(backoff.delay(max(attempt - 1, 0)))

    async def _connect(self) -> None:
        try:
            socket = await connect(
                self._url,
                additional_headers=await bearer(self._token),
                compression=None,
                proxy=None,
                open_timeout=OPEN_TIMEOUT,
                ping_interval=PING_INTERVAL,
                ping_timeout=PING_TIMEOUT,
                close_timeout=2.0,
                max_size=MAX_FRAME,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            if status in {401, 403}:
                body = mask((error.response.body or b"")[:300].decode(errors="replace")).strip()
                raise GatewayRefused(f"it refuses this office's token ({status}): {body}") from None
            raise
        async with socket:
            self._socket = socket
            await self._serve(socket)

    async def restart(self, reason: str) -> None:
        """Close the socket, so that both sides say again where they are."""
        if self._socket is not None:
            logger.warning("starting the connection anew: %s", reason)
            await self._socket.close(1000, reason[:100])

    async def _serve(self, socket: ClientConnection) -> None:
        with around(Step.HELLO_SEND):
            await socket.send(build_frame(self._handler.hello()))
        async with asyncio.timeout(WELCOME_TIMEOUT):
            welcome = parse_gateway_frame(await socket.recv())
        if not isinstance(welcome, Welcome):
            raise InvalidFrame("the first frame is no welcome")
        if welcome.protocol != PROTOCOL:
            raise GatewayRefused(f"it speaks protocol {welcome.protocol}, this agent {PROTOCOL}")
        await self._handler.acknowledged(welcome.operation_number)
        self._resume()
        logger.info("connected to the gateway", extra={"operation_number": welcome.operation_number})
        parts = {asyncio.create_task(self._write(socket)), asyncio.create_task(self._read(socket))}
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._welcomed = False
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
        for part in done:
            part.result()

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for message in socket:
                await self._handler.receive(parse_gateway_frame(message))
        except InvalidFrame:
            await socket.close(1002, "frame not of the protocol")
            raise

    def _resume(self) -> None:
        """Queue what the other side lacks: operations in order, then streaming answers from their start."""
        self._outgoing.clear()
        self._outgoing.extend(self._outbox.pending())
        self._outgoing.extend(self._handler.news())
        self._welcomed = True
        for text in self._handler.texts():
            text.restart()
            self.show(text)
        self._wake.set()

    async def _write(self, socket: ClientConnection) -> None:
        while True:
            while self._outgoing:
                item = self._outgoing.popleft()
                frame = item.next_delta() if isinstance(item, AnswerText) else item
                if frame is not None:
                    with around(_SENDING[type(frame)]):
                        await socket.send(build_frame(frame))
            self._wake.clear()
            await self._wake.wait()


def _reason(error: Exception) -> str:
    return mask(f"{type(error).__name__}: {error}"[:300])
