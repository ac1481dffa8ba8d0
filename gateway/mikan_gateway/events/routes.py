"""The operator's route on the internal listener (`mikan_api.firings`). It parses and hands on."""

import logging
from collections.abc import Callable, Sequence

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mikan_api.exceptions import TokenRefused
from mikan_api.firings import MAX_BODY, PATH, FiringAnswer, FiringBatch
from mikan_api.tokens import verify_request
from mikan_gateway.events.firings import Firings
from mikan_gateway.exceptions import ClusterError, StorageError

logger = logging.getLogger(__name__)


def firing_routes(keys: Callable[[], Sequence[bytes]], firings: Firings) -> list[Route]:
    """The route, to be mounted at the root. Asks for the keys each time, so a rotation needs no restart."""

    async def deliver(request: Request) -> Response:
        try:
            body = await _body(request)
            verify_request(keys(), body, request.headers.get("authorization"))
            batch = FiringBatch.model_validate_json(body)
            results = await firings.deliver(batch.firings)
        except _TooLarge:
            return _refusal(413, "the request is too large")
        except ClientDisconnect:
            return _refusal(400, "the request was cut")
        except TokenRefused as error:
            return _refusal(401, str(error))
        except ValidationError:
            return _refusal(400, "this is no batch of firings")
        except (StorageError, ClusterError) as error:
            return _refusal(503, str(error))
        return Response(
            FiringAnswer(results=tuple(results)).model_dump_json(by_alias=True), media_type="application/json"
        )

    return [Route(PATH, deliver, methods=["POST"])]


class _TooLarge(Exception):
    pass


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise _TooLarge
    return bytes(body)


def _refusal(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status_code=status)
