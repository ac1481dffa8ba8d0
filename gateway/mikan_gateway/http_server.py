"""One HTTP listener: uvicorn as part of the process, not as its owner."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from mikan_api.environment import Listen
from mikan_api.exceptions import ConfigError
from mikan_gateway.agents.server import server_config


class _Server(uvicorn.Server):
    """Leaves signals to the process, and tells when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves an ASGI application on one address."""

    def __init__(self, app: ASGIApp, listen: Listen, name: str) -> None:
        self._app = app
        self._listen = listen
        self._name = name
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._socket: socket.socket | None = None

    @property
    def listening(self) -> socket.socket:
        """The socket that is listened on, once started."""
        if self._socket is None:
            raise RuntimeError("not started")
        return self._socket

    @property
    def port(self) -> int:
        """The port that is listened on; of use where the configuration says 0."""
        return int(self._socket.getsockname()[1]) if self._socket else 0

    @property
    def running(self) -> bool:
        """Whether it serves."""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            ConfigError: the address cannot be had.
        """
        try:
            family = socket.AF_INET6 if ":" in self._listen.host else socket.AF_INET
            self._socket = socket.create_server((self._listen.host, self._listen.port), family=family, backlog=512)
            # asyncio does this only on sockets whose protocol was named; without it small answers wait for 40 ms.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            where = f"{self._listen.host}:{self._listen.port}"
            raise ConfigError(f"{self._name}: can't listen on {where}: {error.strerror}") from None
        config = server_config(self._app, self._listen.host, self._listen.port)
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]), name=f"http-{self._name}")
        await self._server.serving.wait()

    async def stop(self) -> None:
        """Take no further request, finish what is under way for a bounded time."""
        if self._server and self._task:
            self._server.should_exit = True
            await asyncio.gather(self._task, return_exceptions=True)
        if self._socket:
            self._socket.close()
