"""The HTTP side: tokens in paths, forms, JSON and multipart in, the documented envelope out."""

import json
from typing import Any

from aiohttp import web

from servers.telegram.errors import ApiError, bad_request
from servers.telegram.faults import Faults
from servers.telegram.flood import Flood
from servers.telegram.methods import Methods
from servers.telegram.user import Chat, People
from servers.telegram.world import BOT_ID, World

CONFLICT = 409
TOKEN = "7000000001:" + "AAF-double_of_the_bot_api_server-00"
BOT = {
    "id": BOT_ID,
    "is_bot": True,
    "first_name": "mikan",
    "username": "mikan_bot",
    "can_join_groups": True,
    "can_read_all_group_messages": True,
    "supports_inline_queries": False,
}


class TelegramServer:
    """A server on a port of its own, with one bot and as many people as a test wants."""

    def __init__(self, token: str = TOKEN, host: str = "127.0.0.1", port: int = 0) -> None:
        self.token = token
        self.world = World(BOT)
        self.flood = Flood()
        self.faults = Faults()
        self.people = People(self.world)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """Every call of a method, with its parameters, in order."""
        self.conflicts = 0
        """Pollers that were told of another one; who has hung up hears nothing."""
        self.methods = Methods(self.world, self.flood)
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(client_max_size=60 * 1024 * 1024)
        app.router.add_route("*", "/bot{token}/{method}", self._method)
        app.router.add_get("/file/bot{token}/{path:.+}", self._file)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner:
            await self._runner.cleanup()

    async def __aenter__(self) -> "TelegramServer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def base_url(self) -> str:
        return f"http://{self._host}:{self._port}/bot"

    @property
    def base_file_url(self) -> str:
        return f"http://{self._host}:{self._port}/file/bot"

    def private(self, user_id: int, name: str = "Ann", username: str | None = "ann") -> Chat:
        """Somebody's private chat with the bot."""
        return self.people.private(user_id, name, username)

    def called(self, method: str) -> list[dict[str, Any]]:
        """Parameters of every call of a method."""
        return [parameters for name, parameters in self.calls if name == method]

    async def _method(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["token"] != self.token:
            return _answer(ApiError(401, "Unauthorized"))
        method = request.match_info["method"]
        parameters = await _parameters(request)
        self.calls.append((method, parameters))
        fault = self.faults.next(method)
        await fault.wait()
        if fault.kind == "error":
            return _answer(ApiError(500, "Internal Server Error"))
        if fault.kind == "garbage":
            return web.Response(status=502, text="<html><h1>502 Bad Gateway</h1></html>", content_type="text/html")
        if fault.kind == "cut":
            return _broken(request)
        if fault.kind == "unparsable" and parameters.get("parse_mode"):
            return _answer(bad_request('can\'t parse entities: Unsupported start tag "b" at byte offset 0'))
        try:
            result = await self.methods.call(method, parameters)
        except ApiError as error:
            if error.code == CONFLICT and request.transport is not None and not request.transport.is_closing():
                self.conflicts += 1
            return _answer(error)
        if fault.kind == "drop":
            return _broken(request)
        return web.json_response({"ok": True, "result": result})

    async def _file(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["token"] != self.token:
            return _answer(ApiError(401, "Unauthorized"))
        self.calls.append(("file", {"path": request.match_info["path"]}))
        fault = self.faults.next("file")
        await fault.wait()
        if fault.kind == "expired":
            self.world.links.pop(request.match_info["path"], None)
        elif fault.kind is not None:
            return _broken(request)
        file = self.world.links.get(request.match_info["path"])
        if file is None:
            return _answer(ApiError(404, "Not Found"))
        return web.Response(body=file.content, content_type="application/octet-stream")


async def _parameters(request: web.Request) -> dict[str, Any]:
    found: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        found |= await request.json(loads=json.loads)
    elif request.method == "POST":
        found |= dict(await request.post())
    return found


def _answer(error: ApiError) -> web.Response:
    return web.json_response(error.body(), status=error.code)


def _broken(request: web.Request) -> web.Response:
    """Close the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
