"""Every agent's connection, so that all of them can be ended together."""

from starlette.websockets import WebSocket

from mikan_api.tokens import OfficeClaims
from mikan_gateway import close_codes as codes
from mikan_gateway.agents.connection import AgentConnection, Desk


class AgentHub:
    """Serves accepted connections until it is closed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._connections: set[AgentConnection] = set()
        self._closing = False

    def __len__(self) -> int:
        """Connections that stand."""
        return len(self._connections)

    async def serve(self, socket: WebSocket, claims: OfficeClaims) -> None:
        """Serve one connection to its end. The caller has verified the claims."""
        await socket.accept()
        connection = AgentConnection(socket, claims, self._desk)
        self._connections.add(connection)
        if self._closing:
            self._end(connection)
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)

    def close(self) -> None:
        """End every connection; agents dial again and find the next process."""
        self._closing = True
        for connection in self._connections:
            self._end(connection)

    @staticmethod
    def _end(connection: AgentConnection) -> None:
        connection.close(codes.SERVICE_RESTART, "the gateway restarts")
