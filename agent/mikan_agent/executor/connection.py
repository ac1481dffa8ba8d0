"""Many requests side by side over one stream: routing, flow control, liveness, and what a cut means."""

import asyncio
from collections import deque

from mikan_agent.executor import framing
from mikan_agent.executor.exceptions import ConnectionLost, ExecutorUnavailable, ProtocolViolation
from mikan_agent.executor.framing import Frame, FrameDecoder, Kind
from mikan_agent.executor.streams import DuplexStream

HELLO_TIMEOUT = 10.0
"""Seconds until an opened stream must have said hello."""
SILENCE = 15.0
"""Seconds without a byte while requests are open, after which the helper is asked for a sign of life; after as
many again without one the stream is given up. A command can stop the process that carries the stream."""


class Exchange:
    """One request and what the helper answered to it. Holds at most BULK_WINDOW bytes that nobody has taken."""

    def __init__(self, connection: "Connection", number: int, opening: bytes) -> None:
        self.number = number
        self._opening = opening
        self._connection = connection
        self._frames: deque[Frame] = deque()
        self._failure: ConnectionLost | None = None
        self._changed = asyncio.Event()
        self._pending = 0
        self._consumed = 0
        self._window = framing.WINDOW
        self._credit = framing.WINDOW
        self.finished = False
        """Whether the final frame has arrived, or none ever will."""

    async def start(self) -> None:
        """Send the request itself."""
        await self._connection.write(self._opening)

    async def next(self) -> Frame:
        """The next data or final frame; the room that data took is granted again.

        Raises:
            ConnectionLost: the stream ended first.
        """
        while not self._frames:
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()
        frame = self._frames.popleft()
        if frame.kind in framing.DATA_KINDS:
            await self._grant(len(frame.payload))
        return frame

    async def send(self, kind: Kind, payload: bytes = b"") -> None:
        """Send one frame of this request."""
        await self._connection.write(framing.build(kind, self.number, payload))

    async def send_input(self, data: bytes) -> bool:
        """Send input as the helper has room for it. False: the request has ended meanwhile, send no more."""
        for start in range(0, len(data), framing.INPUT_CHUNK):
            chunk = data[start : start + framing.INPUT_CHUNK]
            while self._credit < len(chunk) and not self.finished:
                self._changed.clear()
                await self._changed.wait()
            if self.finished:
                return False
            self._credit -= len(chunk)
            await self.send(Kind.INPUT, chunk)
        return not self.finished

    def receive(self, frame: Frame) -> None:
        """Take a frame off the stream.

        Raises:
            ProtocolViolation: it does not belong here.
        """
        if frame.kind is Kind.WINDOW:
            self._credit += framing.parse_window(frame.payload)
        else:
            self._pending += len(frame.payload) if frame.kind in framing.DATA_KINDS else 0
            if self._pending > self._window or (frame.kind in framing.DATA_KINDS and not frame.payload):
                raise ProtocolViolation("the sandbox helper sent more than it may")
            self._frames.append(frame)
            self.finished = frame.kind in framing.FINAL_KINDS
        self._changed.set()

    def fail(self, failure: ConnectionLost) -> None:
        """No more frames will come."""
        self._failure = failure
        self.finished = True
        self._changed.set()

    async def _grant(self, amount: int) -> None:
        self._pending -= amount
        self._consumed += amount
        if self._consumed >= self._window // framing.GRANT_SHARE and not self.finished:
            granted = self._consumed + framing.BULK_WINDOW - self._window
            self._window, self._consumed = framing.BULK_WINDOW, 0
            await self._connection.write(framing.build_window(self.number, granted))


class Connection:
    """One open stream to a helper."""

    def __init__(self, stream: DuplexStream, silence: float = SILENCE) -> None:
        self._stream = stream
        self._silence = silence
        self._exchanges: dict[int, Exchange] = {}
        self._numbers = 0
        self._heard = 0
        self._failure: ConnectionLost | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def greet(cls, stream: DuplexStream, silence: float = SILENCE) -> "Connection":
        """Wait for the helper's hello.

        Raises:
            ExecutorUnavailable: the stream ended, stayed silent, or is not a helper's.
        """
        connection = cls(stream, silence)
        decoder = FrameDecoder()
        try:
            async with asyncio.timeout(HELLO_TIMEOUT):
                rest = await connection._await_hello(decoder)
        except TimeoutError as error:
            await stream.aclose()
            raise ExecutorUnavailable("the sandbox helper says nothing") from error
        except ConnectionLost as error:
            await stream.aclose()
            raise ExecutorUnavailable(str(error)) from error
        except BaseException:
            await stream.aclose()
            raise
        connection._tasks.append(asyncio.create_task(connection._receive(decoder, rest)))
        return connection

    @property
    def alive(self) -> bool:
        """Whether requests can still be sent."""
        return self._failure is None

    def open_exchange(self, kind: Kind, payload: bytes) -> Exchange:
        """Prepare a request; ``Exchange.start`` sends it.

        Raises:
            ExecutorUnavailable: the stream has ended.
            TooLarge: no frame can hold the request.
        """
        if self._failure is not None:
            raise ExecutorUnavailable(str(self._failure))
        self._numbers += 1
        exchange = Exchange(self, self._numbers, framing.build(kind, self._numbers, payload))
        self._exchanges[exchange.number] = exchange
        self._watch()
        return exchange

    async def write(self, data: bytes) -> None:
        """Send whole frames."""
        try:
            await self._stream.write(data)
        except ConnectionLost as error:
            self._end(error)
            raise

    async def aclose(self) -> None:
        """End the stream; open requests fail with ConnectionLost."""
        self._end(ConnectionLost("the connection to the sandbox was closed"))
        if self._closing is not None:
            await self._closing

    async def _await_hello(self, decoder: FrameDecoder) -> list[Frame]:
        while True:
            data = await self._stream.read()
            if not data:
                raise ConnectionLost("the stream to the sandbox helper ended before it said hello")
            frames = decoder.feed(data)
            if frames:
                framing.parse_hello(frames[0])
                return frames[1:]

    async def _receive(self, decoder: FrameDecoder, frames: list[Frame]) -> None:
        try:
            while True:
                for frame in frames:
                    self._route(frame)
                data = await self._stream.read()
                if not data:
                    break
                self._heard += 1
                frames = decoder.feed(data)
        except ConnectionLost as error:
            self._end(error)
            return
        where = "in the middle of a message" if decoder.inside_frame else "unexpectedly"
        self._end(ConnectionLost(f"the stream from the sandbox ended {where}"))

    def _route(self, frame: Frame) -> None:
        exchange = self._exchanges.get(frame.request)
        if exchange is None:
            return  # it has ended; a grant or the answer to a sign of life
        exchange.receive(frame)
        if exchange.finished:
            del self._exchanges[frame.request]

    def _watch(self) -> None:
        """Make sure that silence is noticed while a request is open."""
        if self._alarm is None:
            heard = self._heard
            self._alarm = asyncio.get_running_loop().call_later(self._silence, self._check, heard, False)

    def _check(self, heard: int, asked: bool) -> None:
        self._alarm = None
        if self._failure is not None or not self._exchanges:
            return
        silent = self._heard == heard
        if silent and asked:
            self._end(ConnectionLost("the sandbox helper stopped answering"))
            return
        if silent:
            probe = framing.build(Kind.STAT, 0, framing.stat_payload("/", follow=True))
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks.append(asyncio.create_task(self._ask(probe)))
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(self._silence, self._check, self._heard, silent)

    async def _ask(self, probe: bytes) -> None:
        try:
            await self.write(probe)
        except ConnectionLost:
            return  # write has ended the connection, which tells everyone

    def _end(self, failure: ConnectionLost) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        if self._alarm is not None:
            self._alarm.cancel()
        for exchange in self._exchanges.values():
            exchange.fail(failure)
        self._exchanges.clear()
        self._closing = asyncio.create_task(self._close())

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stream.aclose()
