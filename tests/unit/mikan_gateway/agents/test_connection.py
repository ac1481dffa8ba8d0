"""What a connection does that needs no socket."""

import asyncio
from typing import Any

from gateway_doubles import FakeOffices, key_of
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.wire import Hello, Stop, build_frame
from mikan_gateway.agents.connection import MAX_CONTROL, AgentConnection


class _StuckSocket:
    """Takes a hello and then lets nothing more out."""

    def __init__(self) -> None:
        self.closed: tuple[int, str] | None = None
        self._frames = [build_frame(Hello(pod_name="p", pod_uid="u", incarnation="i1"))]

    async def receive(self) -> dict[str, Any]:
        if self._frames:
            return {"type": "websocket.receive", "text": self._frames.pop()}
        await asyncio.Event().wait()
        raise AssertionError

    async def send_text(self, text: str) -> None:
        await asyncio.Event().wait()

    async def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)


class _Desk:
    def __init__(self) -> None:
        self.attached = asyncio.Event()
        self.detached = 0

    async def attach(self, *_: object) -> int:
        self.attached.set()
        return 0

    def detach(self, _: object) -> None:
        self.detached += 1


async def test_an_agent_that_does_not_read_is_dropped_and_its_desk_told() -> None:
    offices, socket, desk = FakeOffices(), _StuckSocket(), _Desk()
    offices.add(OfficeAddress(Platform.CONSOLE, "C1"))
    connection = AgentConnection(socket, offices.claims(key_of()), desk)  # type: ignore[arg-type]
    serving = asyncio.create_task(connection.serve())
    await desk.attached.wait()
    for _ in range(MAX_CONTROL + 1):
        connection.send(Stop(run_id="r"))
    await serving
    assert socket.closed == (1013, "this agent does not read")
    assert desk.detached == 1
