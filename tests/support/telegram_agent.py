"""A played agent: the real wire, and answers that a test chooses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
from websockets.exceptions import ConnectionClosed

from gateway_doubles import KEY, FakeOffices, RunningServer, WireAgent, dial
from mikan_api.identity import OfficeKey
from mikan_api.responder import Respond, ResponderOperation, RunFinished, RunOutcome, RunStarted
from mikan_api.tokens import issue_token
from mikan_api.wire import Delta, LogBatch, LogWritten, Run, RunRequest, Stop, build_frame


class Turn:
    """One run, as the agent sees it."""

    def __init__(self, agent: "PlayedAgent", wire: WireAgent, request: RunRequest) -> None:
        self._agent = agent
        self._wire = wire
        self.request = request
        self.stopped = asyncio.Event()

    @property
    def text(self) -> str:
        """What was asked."""
        return self.request.event.message.text

    async def do(self, operation: ResponderOperation) -> None:
        """Report an operation."""
        await self._wire.report(self.request.run_id, operation)

    async def stream(self, text: str, offset: int = 0) -> None:
        """Stream a piece of the answer."""
        frame = Delta(run_id=self.request.run_id, offset=offset, text=text)
        await self._wire.socket.send(build_frame(frame))

    async def attachment(self, attachment_id: str) -> bytes:
        """A file of the message, pulled with the log."""
        return await self._agent.file(attachment_id)

    async def put(self, blob_id: str, content: bytes) -> None:
        """Put a file beside the socket, to be uploaded."""
        async with self._agent.client() as client:
            (await client.put(f"blobs/{blob_id}", content=content)).raise_for_status()


Play = Callable[[Turn], Awaitable[str | None]]
"""Carries out a turn; the answer, if it is not among what it did."""


async def echo(turn: Turn) -> str:
    """The plainest agent."""
    return f"You said: {turn.text}"


class PlayedAgent:
    """The agent of one office."""

    def __init__(self, server: RunningServer, offices: FakeOffices, office: OfficeKey, play: Play) -> None:
        self._server, self._offices, self._office, self._play = server, offices, office, play
        self._turns: dict[str, Turn] = {}
        self._files: dict[str, asyncio.Future[bytes]] = {}

    def file(self, attachment_id: str) -> "asyncio.Future[bytes]":
        """An attachment, now or once it has been pulled."""
        return self._files.setdefault(attachment_id, asyncio.get_running_loop().create_future())

    async def run(self) -> None:
        """Answer until the gateway goes."""
        with contextlib.suppress(ConnectionClosed):
            async with dial(self._server, self._offices.claims(self._office)) as wire, asyncio.TaskGroup() as group:
                await wire.hello()
                async for frame in _frames(wire):
                    if isinstance(frame, Run):
                        turn = self._turns[frame.run.run_id] = Turn(self, wire, frame.run)
                        group.create_task(self._take(turn))
                    elif isinstance(frame, Stop) and frame.run_id in self._turns:
                        self._turns[frame.run_id].stopped.set()
                    elif isinstance(frame, LogBatch):
                        # The gateway forgets a file once the log that names it is written.
                        await self._pull(frame)
                        await wire.socket.send(build_frame(LogWritten(number=frame.entries[-1].number)))

    def client(self) -> httpx.AsyncClient:
        token = issue_token(KEY, "gateway", self._offices.claims(self._office))
        base = f"{self._server.http}/agent/v1/offices/{self._office}/"
        return httpx.AsyncClient(base_url=base, headers={"Authorization": f"Bearer {token}"}, trust_env=False)

    async def _pull(self, batch: LogBatch) -> None:
        async with self.client() as client:
            for entry in batch.entries:
                for file in entry.message.attachments if not entry.from_bot else ():
                    if file.error is None:
                        response = await client.get(f"attachments/{file.id}")
                        self.file(file.id).set_result(response.raise_for_status().content)

    async def _take(self, turn: Turn) -> None:
        with contextlib.suppress(ConnectionClosed):
            await turn.do(RunStarted())
            answer = await self._play(turn)
            if answer is not None:
                await turn.do(Respond(text=answer))
            outcome = RunOutcome.STOPPED if turn.stopped.is_set() else RunOutcome.COMPLETED
            await turn.do(RunFinished(outcome=outcome))


async def _frames(wire: WireAgent) -> AsyncIterator[object]:
    with contextlib.suppress(ConnectionClosed):
        while True:
            yield await wire.receive()
