"""The ``pods/exec`` stream against a server that speaks its subprotocol."""

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from mikan_agent.executor.exceptions import ConnectionLost, ExecutorUnavailable, NoSandbox
from mikan_agent.executor.pod_exec import SUBPROTOCOL, ApiServer, PodDialer, PodTarget

TARGET = PodTarget(namespace="offices", pod="s-key")
Handler = Callable[[ServerConnection], Awaitable[None]]
Process = Callable[[ServerConnection, Request], Response | None]


@asynccontextmanager
async def api(handler: Handler, process: Process | None = None, token: str = "t1") -> AsyncIterator[PodDialer]:
    async with serve(handler, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL], process_request=process) as server:
        url = f"http://127.0.0.1:{port(server)}"
        yield PodDialer(
            ApiServer(url=url, headers=lambda: {"Authorization": f"Bearer {token}"}, tls=lambda: None), TARGET
        )


def port(server: Server) -> int:
    number: int = next(iter(server.sockets)).getsockname()[1]
    return number


def status(**fields: str) -> bytes:
    return b"\x03" + json.dumps(fields).encode()


async def test_asks_for_the_helper_with_the_token() -> None:
    asked: list[tuple[str, str | None, str | None]] = []

    async def handler(socket: ServerConnection) -> None:
        request = socket.request
        assert request is not None
        asked.append((request.path, request.headers.get("Authorization"), socket.subprotocol))

    async with api(handler) as dialer:
        await (await dialer.dial()).aclose()

    query = (
        "command=%2Fmikan%2Fbin%2Fmikan-sandbox&command=connect&container=sandbox&stdin=true&stdout=true&stderr=true"
    )
    path = f"/api/v1/namespaces/offices/pods/s-key/exec?{query}"
    assert asked == [(path, "Bearer t1", "v5.channel.k8s.io")]


async def test_stdin_goes_out_and_stdout_comes_in_and_closing_closes_stdin() -> None:
    received: list[bytes | str] = []

    async def handler(socket: ServerConnection) -> None:
        await socket.send(b"\x01")
        await socket.send(b"\x01hello")
        async for message in socket:
            received.append(message)

    async with api(handler) as dialer:
        stream = await dialer.dial()
        assert await stream.read() == b"hello"
        await stream.write(b"request")
        await stream.aclose()

    assert received == [b"\x00request", b"\xff\x00"]


async def test_success_is_the_end_of_the_stream() -> None:
    async def handler(socket: ServerConnection) -> None:
        await socket.send(b"\x01last")
        await socket.send(status(status="Success"))

    async with api(handler) as dialer:
        stream = await dialer.dial()
        assert [await stream.read(), await stream.read()] == [b"last", b""]


async def test_failure_of_connect_is_told_in_its_own_words() -> None:
    async def handler(socket: ServerConnection) -> None:
        await socket.send(b"\x02dial unix: connection refused\n")
        await socket.send(status(status="Failure", message="command terminated with exit code 1"))

    async with api(handler) as dialer:
        stream = await dialer.dial()
        with pytest.raises(ConnectionLost, match="dial unix: connection refused"):
            await stream.read()


async def test_cut_without_a_status_is_a_loss() -> None:
    async def handler(socket: ServerConnection) -> None:
        socket.transport.abort()

    async with api(handler) as dialer:
        stream = await dialer.dial()
        with pytest.raises(ConnectionLost, match="broke"):
            await stream.read()
        with pytest.raises(ConnectionLost, match="broke"):
            await stream.write(b"x")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (401, "refused this pod's token"),
        (403, "may not open the sandbox s-key"),
        (404, "no sandbox pod s-key"),
        (500, "not running .yet.: container not found"),
    ],
)
async def test_refusals_are_explained(code: int, expected: str) -> None:
    async def handler(socket: ServerConnection) -> None:
        raise AssertionError("never opened")

    def process(socket: ServerConnection, request: Request) -> Response:
        return socket.respond(HTTPStatus(code), json.dumps({"message": "container not found"}))

    async with api(handler, process) as dialer:
        with pytest.raises(ExecutorUnavailable, match=expected) as refused:
            await dialer.dial()
    assert type(refused.value) is (NoSandbox if code == 404 else ExecutorUnavailable)


async def test_unreachable_api_server_is_unavailable() -> None:
    dialer = PodDialer(ApiServer(url="http://127.0.0.1:9", headers=dict, tls=lambda: None), TARGET)

    with pytest.raises(ExecutorUnavailable, match="can't be reached"):
        await dialer.dial()


async def test_missing_token_file_is_unavailable(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    server = ApiServer.in_cluster(environ, tmp_path)

    assert server.url == "https://[fd00::1]:443"
    with pytest.raises(ExecutorUnavailable):
        await PodDialer(server, TARGET).dial()


def test_token_is_read_anew_each_time(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    server = ApiServer.in_cluster(environ, tmp_path)
    seen = []
    for token in ("old\n", "new\n"):
        (tmp_path / "token").write_text(token)
        seen.append(server.headers()["Authorization"])

    assert seen == ["Bearer old", "Bearer new"]


def test_outside_a_pod_is_said() -> None:
    with pytest.raises(ExecutorUnavailable, match="KUBERNETES_SERVICE_HOST is not set"):
        ApiServer.in_cluster({})


def test_certificate_authority_is_checked(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    (tmp_path / "ca.crt").write_text("not a certificate")

    with pytest.raises(ssl.SSLError):
        ApiServer.in_cluster(environ, tmp_path).tls()
