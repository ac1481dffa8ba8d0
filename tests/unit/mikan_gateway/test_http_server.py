"""The listeners of the gateway."""

import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mikan_api.environment import Listen
from mikan_api.exceptions import ConfigError
from mikan_gateway.agents.server import server_config
from mikan_gateway.http_server import HttpServer


async def say_ok(_: object) -> PlainTextResponse:
    return PlainTextResponse("ok")


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    running = HttpServer(Starlette(routes=[Route("/", say_ok)]), Listen("127.0.0.1", 0), "t")
    await running.start()
    yield running
    await running.stop()


async def test_serves_on_a_port_of_its_own(server: HttpServer) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"http://127.0.0.1:{server.port}/")).text == "ok"


async def test_its_connections_send_small_answers_at_once(server: HttpServer) -> None:
    # Accepted connections inherit it.
    assert server.listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


async def test_a_taken_port_is_named(server: HttpServer) -> None:
    second = HttpServer(Starlette(), Listen("127.0.0.1", server.port), "second")

    with pytest.raises(ConfigError, match=rf"second: can't listen on 127\.0\.0\.1:{server.port}"):
        await second.start()


def test_an_idle_connection_stays_longer_than_clients_keep_one() -> None:
    """One that closes on both sides at once loses the request that goes out on it."""
    server = server_config(Starlette(), "127.0.0.1", 0).timeout_keep_alive
    assert server > (httpx.Limits().keepalive_expiry or 0)
    assert server > 15  # aiohttp's, which the operator has
