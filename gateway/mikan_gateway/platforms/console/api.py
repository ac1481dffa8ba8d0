"""The console's HTTP routes: parse, check the token, call the platform. `mikan_api.console` describes them."""

import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from mikan_api.console import (
    CONSOLE_PREFIX,
    MAX_SEND_BYTES,
    ConsoleAccepted,
    ConsoleSend,
    ConsoleState,
)
from mikan_api.events import describe
from mikan_api.exceptions import InvalidValue
from mikan_api.identity import check_raw_id
from mikan_api.kill_points import Step, after, before
from mikan_gateway.exceptions import (
    ClusterError,
    PlatformUnavailable,
    SpoolRefused,
    StorageError,
    UserFault,
)

if TYPE_CHECKING:
    from mikan_gateway.platforms.console.platform import ConsolePlatform

logger = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]


class _TooLarge(Exception):
    """A body that is longer than its route takes."""


def build_console_app(platform: "ConsolePlatform", token: str) -> ASGIApp:
    """The console as an ASGI application."""
    routes = _Routes(platform)
    one = f"{CONSOLE_PREFIX}/{{conversation}}"
    app = Starlette(
        routes=[
            Route(one, _guarded(routes.state)),
            Route(f"{one}/messages", _guarded(routes.send), methods=["POST"]),
            Route(f"{one}/events", _guarded(routes.events)),
            Route(f"{one}/files/{{file_id}}", _guarded(routes.put_file), methods=["PUT"]),
            Route(f"{one}/files/{{file_id}}", _guarded(routes.get_file), methods=["GET"]),
        ]
    )
    return _Authenticated(app, token)


class _Authenticated:
    """Lets a request through that carries the bearer token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await WebSocketClose()(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        if hmac.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
        else:
            response = _error(401, "a valid console token is needed")
            response.headers["WWW-Authenticate"] = "Bearer"
            await response(scope, receive, send)


class _Routes:
    def __init__(self, platform: "ConsolePlatform") -> None:
        self._platform = platform

    async def send(self, request: Request) -> Response:
        body = ConsoleSend.model_validate_json(await _body(request))
        number = await self._platform.receive(_conversation(request), body)
        before(Step.MESSAGE_ACKNOWLEDGE)
        accepted = ConsoleAccepted(log_number=number).to_json_dict()
        return JSONResponse(accepted, 202, background=BackgroundTask(_acknowledged))

    async def state(self, request: Request) -> Response:
        last = await self._platform.feed.last(_conversation(request))
        return JSONResponse(ConsoleState(last_event=last).to_json_dict())

    async def events(self, request: Request) -> Response:
        after = request.query_params.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) <= 18):
            return _error(400, "after is not a number")
        lines = self._lines(_conversation(request), int(after))
        return StreamingResponse(lines, media_type="application/x-ndjson", headers={"Cache-Control": "no-store"})

    async def put_file(self, request: Request) -> Response:
        size = await self._platform.files.save(_conversation(request), request.path_params["file_id"], request.stream())
        return JSONResponse({"size": size}, 201)

    async def get_file(self, request: Request) -> Response:
        conversation, file_id = _conversation(request), request.path_params["file_id"]
        if not self._platform.files.path(conversation, file_id).is_file():
            return _error(404, "no such file")
        content = self._platform.files.read(conversation, file_id)
        return StreamingResponse(
            content, media_type="application/octet-stream", headers={"X-Content-Type-Options": "nosniff"}
        )

    async def _lines(self, conversation: str, after: int) -> AsyncIterator[bytes]:
        yield b"\n"  # so that headers and the first byte arrive at once
        async for event in self._platform.feed.events(conversation, after):
            line = "" if event is None else event.model_dump_json(by_alias=True, exclude_defaults=True)
            yield f"{line}\n".encode()


async def _acknowledged() -> None:
    # A coroutine, since Starlette would start a thread for a plain function.
    after(Step.MESSAGE_ACKNOWLEDGE)


def _conversation(request: Request) -> str:
    conversation = str(request.path_params["conversation"])
    check_raw_id(conversation)
    return conversation


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_SEND_BYTES:
            raise _TooLarge
    return bytes(body)


def _guarded(handler: Handler) -> Handler:
    """Translate errors into answers, in the one place where they meet HTTP."""

    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except ValidationError as error:
            return _error(400, describe(error))
        except InvalidValue as error:
            return _error(400, str(error))
        except _TooLarge:
            return _error(413, f"the message is larger than {MAX_SEND_BYTES} bytes")
        except SpoolRefused as error:
            return _error(error.status, str(error))
        except UserFault as error:
            return _error(409, str(error))
        except StorageError as error:
            return _error(507, str(error))
        except (ClusterError, PlatformUnavailable) as error:
            logger.warning("message not taken", extra={"reason": str(error)})
            return _error(503, str(error))
        except ClientDisconnect:
            return Response(status_code=499)

    return guarded


def _error(status: int, message: str) -> Response:
    return Response(json.dumps({"error": message}), status, media_type="application/json")
