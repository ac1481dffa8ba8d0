"""HTTP/1.1 to the two services of ours that an agent talks to: the models process, and the gateway's bytes.

Small, because a general client cost every office 10 MB, 0.06 s of its first reply and 1.8 ms of CPU per model call
(measured with httpx), a fifth of what a short answer takes here. httptools parses; what is left is to send, to time out
and to keep connections. Nothing follows a redirect, keeps a cookie, asks a proxy or reads the environment.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from mikan_agent.exceptions import ServiceSilent, ServiceUnreachable

KEPT = 4.0
"""Seconds that an idle connection is kept; our servers close theirs after 5 or more."""
CONNECT_TIMEOUT = 10.0
MAX_HEAD = 64 * 1024
"""Bytes of an answer's status line and headers, together."""
MAX_WAITING = 256 * 1024
"""Bytes of a body that nobody has taken; then the server waits."""

Body = bytes | AsyncIterator[bytes]


class HttpClient:
    """Requests to one service; each has a connection to itself while it lasts."""

    def __init__(self, base_url: str, silence: float) -> None:
        """``silence``: seconds without a byte, or without room for one, after which a request has failed."""
        parts = urlsplit(base_url)
        self._tls = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._tls else 80)
        self._authority, self._prefix = parts.netloc, parts.path.rstrip("/")
        self._silence = silence
        self._idle: list[tuple[float, _Connection]] = []
        self._context: ssl.SSLContext | None = None

    @asynccontextmanager
    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: Body = b""
    ) -> AsyncIterator["Response"]:
        """Send a request; its answer, the body of which is read within the block or not at all.

        Raises:
            ServiceUnreachable: no connection, or one that broke, or an answer that is not HTTP.
            ServiceSilent: nothing moved for too long.
        """
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\nHost: {self._authority}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection = self._kept() or await self._connect()
        response = connection.response = Response(connection)
        whole = False
        try:
            whole = await connection.send(head.encode("latin-1"), body)
            while not response.begun:
                await connection.news()
            yield response
        finally:
            connection.response = None
            if whole and response.reusable:
                self._idle.append((asyncio.get_running_loop().time(), connection))
            else:
                connection.close()

    async def aclose(self) -> None:
        """Let go of the connections."""
        for _, connection in self._idle:
            connection.close()
        self._idle.clear()

    def _kept(self) -> "_Connection | None":
        now = asyncio.get_running_loop().time()
        while self._idle:
            since, connection = self._idle.pop()
            if now - since < KEPT and connection.usable:
                return connection
            connection.close()
        return None

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                if self._tls and self._context is None:
                    # Reading the certificate store takes 0.1 s.
                    self._context = await asyncio.to_thread(ssl.create_default_context)
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._silence), self._host, self._port, ssl=self._context
                )
        except TimeoutError as error:
            raise ServiceSilent("no connection in time") from error
        except OSError as error:
            raise ServiceUnreachable(type(error).__name__) from error
        return connection


class Response:
    """An answer as it comes."""

    def __init__(self, connection: "_Connection") -> None:
        self._connection = connection
        self._parser = HttpResponseParser(self)
        self._size = 0
        self._body: list[bytes] = []
        self._complete = False
        self.begun = False
        """Whether status and headers are there."""
        self.reusable = False
        """Whether the connection can take another request: this answer is there, and the server keeps it open."""
        self.waiting = 0
        """Bytes of the body that nobody has taken."""
        self.status = 0
        self.headers: dict[str, str] = {}
        """Names in lower case; of several with one name, the last."""

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, in whatever pieces it comes.

        Raises:
            ServiceUnreachable, ServiceSilent: there should be more of it.
        """
        while self._body or not self._complete:
            if self._body:
                pieces, self._body, self.waiting = self._body, [], 0
                self._connection.go_on()
                yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
            else:
                await self._connection.news()

    async def read(self, most: int) -> bytes:
        """The body, without what is beyond ``most`` bytes.

        Raises:
            ServiceUnreachable, ServiceSilent: there should be more of it.
        """
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > most:
                break
        return bytes(body[:most])

    def feed(self, data: bytes) -> None:
        """Take what came.

        Raises:
            ServiceUnreachable: it is no answer.
        """
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            raise ServiceUnreachable(f"the answer is not HTTP ({type(error).__name__})") from error
        if not self.begun and self._size > MAX_HEAD:
            raise ServiceUnreachable(f"the answer's headers take more than {MAX_HEAD} bytes")

    # Called by the parser.

    def on_message_begin(self) -> None:
        # After the whole answer there is nothing that this could belong to.
        self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        # 100 to 199 announce the answer; it follows.
        self.status = self._parser.get_status_code()
        self.begun = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self.waiting += len(body)

    def on_message_complete(self) -> None:
        self._complete = self.begun
        self.reusable = self.begun and self._parser.should_keep_alive()


class _Connection(asyncio.Protocol):
    """One connection; its failures told in our terms."""

    def __init__(self, silence: float) -> None:
        self._silence = silence
        self._transport: asyncio.Transport | None = None
        self._failure: ServiceUnreachable | None = None
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()
        self._paused = False
        self.response: Response | None = None
        """What the server is answering."""

    @property
    def usable(self) -> bool:
        """Whether it stands, as far as is known."""
        return self._failure is None

    async def send(self, head: bytes, body: Body) -> bool:
        """Send a request; whether all of it was sent. A server may answer before it has read a body."""
        if isinstance(body, bytes):
            return await self._write(head, b"Content-Length: %d\r\n\r\n" % len(body), body)
        whole = await self._write(head, b"Transfer-Encoding: chunked\r\n\r\n")
        async for piece in body:
            if piece and not (whole := await self._write(b"%x\r\n" % len(piece), piece, b"\r\n")):
                break
        return whole and await self._write(b"0\r\n\r\n")

    async def news(self) -> None:
        """Wait until something has come.

        Raises:
            ServiceUnreachable, ServiceSilent: nothing will, or did.
        """
        self._news.clear()
        if self._failure is not None:
            raise self._failure
        await self._in_time(self._news, "no answer in time")

    def go_on(self) -> None:
        """There is room for more of a body."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Give it up."""
        self._fail(ServiceUnreachable("the connection was closed"))

    async def _write(self, *pieces: bytes) -> bool:
        if self._transport is None or (self.response and self.response.begun):
            return False
        self._transport.writelines(pieces)
        await self._in_time(self._room, "no room for the request in time")
        return True

    async def _in_time(self, event: asyncio.Event, otherwise: str) -> None:
        if not event.is_set():
            try:
                async with asyncio.timeout(self._silence):
                    await event.wait()
            except TimeoutError as error:
                raise ServiceSilent(otherwise) from error

    def _fail(self, failure: ServiceUnreachable) -> None:
        self._failure = self._failure or failure
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self._news.set()
        self._room.set()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Of the kind that was asked for, though no subclass of it: event loops bring their own.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.response is None:
            self._fail(ServiceUnreachable("an answer to nothing"))
            return
        try:
            self.response.feed(data)
        except ServiceUnreachable as error:
            self._fail(error)
        if self.response.waiting > MAX_WAITING and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._news.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(ServiceUnreachable("the connection was closed" if error is None else type(error).__name__))

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()
