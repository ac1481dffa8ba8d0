"""How uvicorn serves agents: the limits of `mikan_api.wire` and a watch over half-open sockets.

``websockets-sansio`` is uvicorn's implementation over the maintained core of `websockets`; it stops reading while a
frame waits, so a flood stays in the kernel's buffers.
"""

from typing import Any

from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from mikan_api.wire import MAX_FRAME

PING_INTERVAL = 10.0
PING_TIMEOUT = 15.0


class QuietRefusals(WebSocketsSansIOProtocol):
    """A handshake that was refused with an HTTP response is complete; uvicorn would log an error for each."""

    async def send(self, message: Any) -> None:
        """As uvicorn's."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True


def server_config(app: ASGIApp, host: str, port: int) -> Config:
    """The configuration of the internal listener."""
    return Config(
        app,
        host=host,
        port=port,
        ws=QuietRefusals,
        ws_max_size=MAX_FRAME,
        ws_ping_interval=PING_INTERVAL,
        ws_ping_timeout=PING_TIMEOUT,
        # Frames are small and the network is the cluster's own: compressing costs more than it saves.
        ws_per_message_deflate=False,
        log_config=None,
        access_log=False,
        server_header=False,
        # Longer than any client keeps an idle connection, or a request may go out on one that is being closed here.
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
        lifespan="off",
    )
