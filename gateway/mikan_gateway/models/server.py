"""The HTTP surface: chat completions, models, probes and metrics. Handlers parse, call one service, and write.

A client that goes away cancels its call at once: the completion runs beside a watch on the connection.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from mikan_gateway.models.access import Access
from mikan_gateway.models.calls import ModelCalls
from mikan_gateway.models.chat import parse_request
from mikan_gateway.models.chunks import Collected
from mikan_gateway.models.config import ModelEntry
from mikan_gateway.models.exceptions import CallFailed, CallRefused
from mikan_gateway.models.health import Health
from mikan_gateway.models.metrics import Metrics

logger = logging.getLogger(__name__)

BODY_SECONDS = 60
"""Longest wait for a request's body."""
DONE = b"data: [DONE]\n\n"
ALIVE = b": alive\n\n"
ALIVE_SECONDS = 20.0
"""Longest silence towards a client; agents take a minute of it for a cut."""
MAX_WAITING = 64 * 1024
"""Bytes of events that wait for a slow client; then the call does."""
STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class JsonResponse(Response):
    """A JSON answer."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Compact JSON."""
        return to_json(content)


def error_response(error: CallFailed) -> Response:
    """An error in the OpenAI form."""
    headers = {"retry-after": error.retry_after} if error.retry_after else {}
    if error.status == 401 and error.code == "invalid_office_token":
        headers["www-authenticate"] = "Bearer"
    return JsonResponse(error.body(), error.status, headers)


@dataclass(frozen=True, slots=True)
class ChatCompletions:
    """``POST /v1/chat/completions``."""

    access: Access
    calls: ModelCalls
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            office = self.access.office_of(request.headers.get("authorization"))
            limit = self.calls.current().config.limits.request_bytes
            chat = parse_request(await read_body(request, limit))
        except CallRefused as error:
            self.metrics.refused(error.code)
            await error_response(error)(scope, receive, send)
            return
        answer = self.calls.stream(office, chat)
        respond = _respond_streamed if chat.stream else _respond_whole
        await until_gone(receive, respond(answer, scope, receive, send))


class EventStream:
    """A streamed answer on its way out, with signs of life while there is nothing to say.

    Events that come in one turn of the loop leave in one write: each write costs this process and the reader far more
    than an event does. The status is sent with the first of them: an error after that is an event.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self._quiet = True
        self._waiting = bytearray()
        self._ended = False
        self._news, self._room = asyncio.Event(), asyncio.Event()

    async def write(self, events: bytes) -> None:
        """Have some events sent; waits while many do."""
        self._quiet = False
        self.started = True
        self._waiting += events
        self._news.set()
        while len(self._waiting) > MAX_WAITING:
            self._room.clear()
            await self._room.wait()

    def end(self, events: bytes) -> None:
        """Have the last events sent."""
        self._waiting += events
        self._ended = True
        self._news.set()

    async def send_all(self) -> None:
        """Send what is written, to the end."""
        more = True
        head = False
        while more:
            await self._news.wait()
            self._news.clear()
            more, body = not self._ended, bytes(self._waiting)
            self._waiting.clear()
            self._room.set()
            if not head:
                head = True
                await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
            await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def stay_alive(self) -> None:
        """Write a comment whenever nothing was written for a while; never ends."""
        while True:
            self._quiet = True
            await asyncio.sleep(ALIVE_SECONDS)
            if self._quiet:
                await self.write(ALIVE)


async def _respond_streamed(answer: AsyncGenerator[bytes, None], scope: Scope, receive: Receive, send: Send) -> None:
    stream = EventStream(send)
    sending = asyncio.create_task(stream.send_all())
    parts = (sending, asyncio.create_task(stream.stay_alive()))
    try:
        tail = DONE
        try:
            async with aclosing(answer):
                async for data in answer:
                    await stream.write(_event(data))
        except CallFailed as error:
            if not stream.started:
                await error_response(error)(scope, receive, send)
                return
            tail = _event(to_json(error.body()))
        stream.end(tail)
        await sending
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n" if data else ALIVE


async def _respond_whole(answer: AsyncGenerator[bytes, None], scope: Scope, receive: Receive, send: Send) -> None:
    collected = Collected()
    async with aclosing(answer):
        try:
            async for data in answer:
                if data:
                    collected.add(data)
            response: Response = JsonResponse(collected.completion())
        except CallFailed as error:
            response = error_response(error)
    await response(scope, receive, send)


async def until_gone(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` to its end, or cancel it when the client goes away."""
    task = asyncio.create_task(work)
    watch = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def read_body(request: Request, limit: int) -> bytes:
    """A request's body, refused as soon as it is known to be too long.

    Raises:
        CallRefused: 413, 408, or 400 where the client went away.
    """
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise _too_long(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise CallRefused(400, "invalid_request_error", "client_gone", "the request ended early")
                body += message.get("body", b"")
                if len(body) > limit:
                    raise _too_long(limit)
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise CallRefused(408, "invalid_request_error", "request_timeout", "the request's body took too long") from None


def _too_long(limit: int) -> CallRefused:
    message = f"the request is longer than {limit} bytes; send fewer or smaller images, or compact the conversation"
    return CallRefused(413, "invalid_request_error", "request_too_large", message)


def build_app(
    access: Access,
    calls: ModelCalls,
    metrics: Metrics,
    health: Callable[[], Health],
    lifespan: Lifespan[Starlette] | None = None,
) -> Starlette:
    """The application."""

    async def models(request: Request) -> Response:
        access.office_of(request.headers.get("authorization"))
        catalog = calls.current()
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": name.partition("/")[0]} | entry.to_json_dict()
            for name, entry in catalog.listed()
        ]
        return JsonResponse({"object": "list", "data": data})

    async def model(request: Request) -> Response:
        access.office_of(request.headers.get("authorization"))
        name: str = request.path_params["model"]
        provider, _, own_name = name.partition("/")
        catalog = calls.current()
        window = catalog.window(provider, own_name)
        entry = catalog.entry(provider, own_name) or ModelEntry()
        about = {"id": name, "object": "model", "created": 0, "owned_by": provider} | entry.to_json_dict()
        return JsonResponse(about | ({"contextWindow": window} if window else {}))

    async def healthz(request: Request) -> Response:
        return JsonResponse({"ok": True})

    async def readyz(request: Request) -> Response:
        state = health()
        return JsonResponse({"ok": state.ready, "parts": state.parts}, 200 if state.ready else 503)

    async def exposed(request: Request) -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    completions: ASGIApp = ChatCompletions(access, calls, metrics)
    return Starlette(
        routes=[
            Route("/v1/chat/completions", completions, methods=["POST"]),
            Route("/v1/models", models),
            Route("/v1/models/{model:path}", model),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", exposed),
        ],
        exception_handlers={CallFailed: _failed, HTTPException: _http_failed, Exception: _internal},
        lifespan=lifespan,
    )


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, CallFailed)  # noqa: S101  registered for it
    return error_response(error)


async def _http_failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  registered for it
    message = f"{error.detail}: {request.method} is not served at this path"
    return error_response(CallRefused(error.status_code, "invalid_request_error", "not_served", message))


async def _internal(request: Request, error: Exception) -> Response:
    message = "an internal error of the models process; its log says more"
    return error_response(CallFailed(500, "server_error", "internal_error", message))
