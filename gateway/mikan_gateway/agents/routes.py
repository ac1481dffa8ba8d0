"""Routes for agents: ``/agent/v1/offices/<office key>`` and the bytes below it. They parse and hand on."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from mikan_api.kill_points import Step, after, before
from mikan_api.tokens import OfficeClaims
from mikan_gateway.agents.authentication import Authenticator
from mikan_gateway.agents.hub import AgentHub
from mikan_gateway.exceptions import NotAuthenticated, SpoolRefused, StorageError, StorageFull
from mikan_gateway.storage.spool import SpoolDirectory

Handler = Callable[[Request, OfficeClaims], Awaitable[Response]]


def agent_routes(authenticator: Authenticator, hub: AgentHub, spool: SpoolDirectory) -> list[BaseRoute]:
    """The routes, to be mounted at the root of the gateway's internal listener."""

    async def connect(socket: WebSocket) -> None:
        try:
            claims = await authenticator.authenticate(socket.headers.get("authorization"), socket.path_params["key"])
        except NotAuthenticated as error:
            await socket.send_denial_response(_refusal(error.status, str(error)))
            return
        await hub.serve(socket, claims)

    async def attachment(request: Request, claims: OfficeClaims) -> Response:
        path = spool.attachment(claims.office, request.path_params["id"])
        if not await asyncio.to_thread(path.is_file):
            return _refusal(404, "there is no such attachment")
        before(Step.ATTACHMENT_SERVE)
        served = BackgroundTask(after, Step.ATTACHMENT_SERVE)
        return FileResponse(path, media_type="application/octet-stream", background=served)

    async def blob(request: Request, claims: OfficeClaims) -> Response:
        size = await spool.save_blob(claims.office, request.path_params["id"], request.stream())
        before(Step.BLOB_ACKNOWLEDGE)
        return JSONResponse({"size": size}, 201, background=BackgroundTask(after, Step.BLOB_ACKNOWLEDGE))

    base = "/agent/v1/offices/{key}"
    return [
        WebSocketRoute(base, connect),
        Route(f"{base}/attachments/{{id}}", _guarded(authenticator, attachment), methods=["GET"]),
        Route(f"{base}/blobs/{{id}}", _guarded(authenticator, blob), methods=["PUT"]),
    ]


def _guarded(authenticator: Authenticator, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def guarded(request: Request) -> Response:
        try:
            claims = await authenticator.authenticate(request.headers.get("authorization"), request.path_params["key"])
            return await handler(request, claims)
        except NotAuthenticated as error:
            return _refusal(error.status, str(error))
        except SpoolRefused as error:
            return _refusal(error.status, str(error))
        except StorageFull as error:
            return _refusal(507, str(error))
        except StorageError as error:
            return _refusal(503, str(error))
        except ClientDisconnect:
            return _refusal(400, "the upload was cut")

    return guarded


def _refusal(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status_code=status)
