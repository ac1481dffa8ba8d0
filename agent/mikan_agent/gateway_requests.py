"""Questions to the gateway: asked until they are answered, through any number of connections.

A question keeps its id from one connection to the next, and by it the gateway knows what it has done already.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

from mikan_agent.exceptions import RequestFailed
from mikan_api.base import OpenModel
from mikan_api.wire import MAX_FRAME, MAX_REQUESTS, Reply, Request, build_frame

TIMEOUT = 60.0
"""Seconds for an answer; a gateway that restarts is back much sooner."""
MAX_PARAMS = MAX_FRAME // 2


class GatewayRequests:
    """Asks the gateway; at most so many questions at once as it takes, the others wait."""

    def __init__(self, send: Callable[[OpenModel], None]) -> None:
        """``send`` drops a frame where there is no connection; the next one begins with `pending`."""
        self._send = send
        self._asked: dict[str, tuple[Request, asyncio.Future[Reply]]] = {}
        self._turn = asyncio.Semaphore(MAX_REQUESTS // 2)

    def pending(self) -> list[Request]:
        """Everything that is not answered."""
        return [request for request, _ in self._asked.values()]

    def replied(self, reply: Reply) -> None:
        """Take an answer; one that nobody waits for any more is dropped."""
        _, answered = self._asked.get(reply.id, (None, None))
        if answered is not None and not answered.done():
            answered.set_result(reply)

    async def ask(self, method: str, params: dict[str, Any], seconds: float = TIMEOUT) -> dict[str, Any]:
        """Ask, and wait for the result.

        Args:
            method: what is wanted (`mikan_api.wire.Request`).
            params: JSON.
            seconds: how long to wait, behind earlier questions too.

        Raises:
            RequestFailed: the gateway refuses, or did not answer in time; what was asked may have been done even so.
        """
        request = Request(id=secrets.token_hex(12), method=method, params=params)
        if len(build_frame(request)) > MAX_PARAMS:
            raise RequestFailed("this is too much for one request")
        try:
            async with asyncio.timeout(seconds), self._turn:
                reply = await self._answer(request)
        except TimeoutError:
            raise RequestFailed(f"the gateway did not answer within {seconds:.0f} s") from None
        if reply.error is not None:
            raise RequestFailed(reply.error)
        return reply.result

    async def _answer(self, request: Request) -> Reply:
        answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asked[request.id] = request, answered
        try:
            self._send(request)
            return await answered
        finally:
            del self._asked[request.id]
