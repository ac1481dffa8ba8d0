"""The stream to the helper in a sandbox pod: one ``pods/exec`` WebSocket, without a Kubernetes client.

Form: Kubernetes' remote command subprotocol ``v5.channel.k8s.io``. The first byte of each binary message names a
channel; one more channel closes another by half.
"""

import asyncio
import json
import os
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from mikan_agent.executor.client import START_TIMEOUT, HelperExecutor
from mikan_agent.executor.exceptions import ConnectionLost, ExecutorUnavailable, NoSandbox
from mikan_agent.executor.paths import PathContext
from mikan_agent.executor.ports import ExecutorConfig
from mikan_api import names

SUBPROTOCOL = Subprotocol("v5.channel.k8s.io")
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_STDIN, _STDOUT, _STDERR, _STATUS = 0, 1, 2, 3
_CLOSE_STDIN = b"\xff\x00"
_STDIN_PREFIX = b"\x00"
_OPEN_TIMEOUT = 10.0
_CLOSE_TIMEOUT = 1.0
_PING = 20.0
_WRITE_LIMIT = 256 * 1024
_STDERR_KEPT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTarget:
    """Which process to start in which pod."""

    namespace: str
    pod: str
    container: str = names.SANDBOX_CONTAINER
    command: tuple[str, ...] = (names.HELPER, "connect")

    @property
    def path(self) -> str:
        """Path and query of the request."""
        query = [("command", argument) for argument in self.command]
        query += [("container", self.container), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/exec?{urlencode(query)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """Where the API server is, and who we are to it.

    Attributes:
        url: ``https://host:port``.
        headers: asked anew for each connection, off the event loop, since tokens are replaced in place.
        tls: likewise; None for plain HTTP.
    """

    url: str
    headers: Callable[[], Mapping[str, str]]
    tls: Callable[[], ssl.SSLContext | None]

    @classmethod
    def in_cluster(cls, environ: Mapping[str, str] = os.environ, account: Path = SERVICE_ACCOUNT) -> "ApiServer":
        """The API server as a pod with a service account sees it.

        Raises:
            ExecutorUnavailable: this is not such a pod.
        """
        try:
            host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
        except KeyError as error:
            raise ExecutorUnavailable(f"not in a Kubernetes pod: {error.args[0]} is not set") from error
        return cls(
            url=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            headers=lambda: {"Authorization": f"Bearer {(account / 'token').read_text().strip()}"},
            tls=lambda: ssl.create_default_context(cafile=account / "ca.crt"),
        )


class PodDialer:
    """Opens streams to the helper of one sandbox pod."""

    def __init__(self, server: ApiServer, target: PodTarget) -> None:
        self._server = server
        self._target = target

    async def dial(self) -> "PodStream":
        """Start ``connect`` in the pod.

        Raises:
            ExecutorUnavailable: no pod yet, not running yet, not allowed, or no API server; the message says which.
        """
        try:
            headers, tls = await asyncio.to_thread(self._credentials)
            socket = await connect(
                "ws" + self._server.url.removeprefix("http") + self._target.path,
                additional_headers=headers,
                subprotocols=[SUBPROTOCOL],
                compression=None,
                max_size=None,
                proxy=None,
                open_timeout=_OPEN_TIMEOUT,
                close_timeout=_CLOSE_TIMEOUT,
                ping_interval=_PING,
                ping_timeout=_PING,
                write_limit=_WRITE_LIMIT,
                ssl=tls,
            )
        except InvalidStatus as error:
            missing = error.response.status_code == HTTPStatus.NOT_FOUND
            raise (NoSandbox if missing else ExecutorUnavailable)(self._explain(error)) from error
        except (OSError, WebSocketException) as error:  # TimeoutError and ssl.SSLError are OSErrors
            detail = str(error) or type(error).__name__
            raise ExecutorUnavailable(f"the Kubernetes API server can't be reached: {detail}") from error
        return PodStream(socket)

    def _credentials(self) -> tuple[Mapping[str, str], ssl.SSLContext | None]:
        return self._server.headers(), self._server.tls()

    def _explain(self, error: InvalidStatus) -> str:
        status = error.response.status_code
        known = {
            401: "the API server refused this pod's token",
            403: f"this pod may not open the sandbox {self._target.pod} (yet)",
            404: f"there is no sandbox pod {self._target.pod} (yet)",
        }
        detail = _message(error.response.body or b"")
        return known.get(status) or f"the sandbox {self._target.pod} is not running (yet): {detail or status}"


class PodStream:
    """The stdin and stdout of ``connect`` as a DuplexStream."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._stderr = b""
        self._status: dict[str, Any] | None = None

    async def read(self) -> bytes:
        """The next bytes of stdout; empty when ``connect`` ended without an error."""
        while True:
            try:
                message = await self._socket.recv(decode=False)
            except ConnectionClosed as error:
                return self._ended(error)
            channel = message[0] if message else None
            if channel == _STDOUT and len(message) > 1:
                return message[1:]
            if channel == _STDERR:
                self._stderr = (self._stderr + message[1:])[-_STDERR_KEPT:]
            elif channel == _STATUS:
                self._status = _status(message[1:])

    async def write(self, data: bytes) -> None:
        """Send to stdin."""
        try:
            await self._socket.send(_STDIN_PREFIX + data)
        except ConnectionClosed as error:
            raise ConnectionLost(f"connection to the sandbox broke: {error}") from error

    async def aclose(self) -> None:
        """Close stdin, which ends ``connect``, then the WebSocket."""
        with suppress(ConnectionClosed):  # closed is what we want
            await self._socket.send(_CLOSE_STDIN)
        await self._socket.close()

    def _ended(self, error: ConnectionClosed) -> bytes:
        if self._status is None:
            raise ConnectionLost(f"connection to the sandbox broke: {error}") from error
        if self._status.get("status") == "Success":
            return b""
        said = self._stderr.decode(errors="replace").strip()
        reason = said or self._status.get("message")
        raise ConnectionLost(f"the sandbox's end of the stream failed: {reason}") from error


def _status(body: bytes) -> dict[str, Any]:
    """A ``metav1.Status`` as far as it can be read."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return {"message": body.decode(errors="replace")[:_STDERR_KEPT]}
    return parsed if isinstance(parsed, dict) else {}


def _message(body: bytes | bytearray) -> str:
    return str(_status(bytes(body)).get("message") or "")


def pod_executor(
    server: ApiServer,
    target: PodTarget,
    config: ExecutorConfig,
    path_context: PathContext,
    *,
    start_timeout: float = START_TIMEOUT,
) -> HelperExecutor:
    """The Executor of a sandbox pod."""
    return HelperExecutor(PodDialer(server, target), config, path_context, start_timeout=start_timeout)
