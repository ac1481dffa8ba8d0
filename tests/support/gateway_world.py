"""A runtime on a real database with everything around it played."""

import asyncio

from gateway_doubles import FakeLink, ManualClock, NoBlobs, key_of
from gateway_runtime import RuntimeWorld
from mikan_api.base import OpenModel
from mikan_api.responder import ResponderOperation, RunFinished, RunOutcome, RunStarted
from mikan_api.wire import Operation, Run
from mikan_gateway.runtime.conversation_runtime import ConversationRuntime
from mikan_gateway.storage.database import Database


class World(RuntimeWorld):
    """The runtime and its surroundings; `restart` begins a new process on the same database."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.clock, self.blobs = ManualClock(), NoBlobs()
        self.dropped = 0
        """Operations that were given up."""
        self._numbers: dict[str, int] = {}

    async def start(self) -> None:
        self.database = await Database.open(self._url)
        self.runtime = ConversationRuntime(
            self.database, self.offices, self.output, self.blobs, self.clock, self._count_dropped
        )
        await self.runtime.start()

    def _count_dropped(self) -> None:
        self.dropped += 1

    async def connect(
        self, incarnation: str = "i1", runs: tuple[str, ...] = (), pod_uid: str = "pod-1", conversation: str = "C1"
    ) -> FakeLink:
        """Have an agent say hello."""
        link = FakeLink(self.offices.claims(key_of(conversation)), incarnation)
        hello = link.hello(runs=runs, pod_uid=pod_uid)
        self._numbers[incarnation] = await self.runtime.desk.attach(link, link.claims, hello)
        return link

    def take(self, link: FakeLink) -> list[OpenModel]:
        """What the agent is given now."""
        return self.runtime.desk.take(link, 1_000_000)

    def runs(self, link: FakeLink) -> list[str]:
        """The runs that the agent is given now."""
        return [frame.run.run_id for frame in self.take(link) if isinstance(frame, Run)]

    async def report(self, link: FakeLink, run_id: str, *operations: ResponderOperation) -> int:
        """Have an agent report."""
        numbered = []
        for operation in operations:
            self._numbers[link.incarnation] += 1
            numbered.append(Operation(number=self._numbers[link.incarnation], run_id=run_id, operation=operation))
        return await self.runtime.desk.commit(link, numbered)

    async def begin(self, link: FakeLink, run_id: str) -> None:
        await self.report(link, run_id, RunStarted())

    async def finish(self, link: FakeLink, run_id: str, outcome: RunOutcome = RunOutcome.COMPLETED) -> None:
        await self.report(link, run_id, RunFinished(outcome=outcome))

    async def settle(self) -> None:
        """Let what was begun on the side come to its end: commits, then what they set off."""
        for _ in range(3):
            await self.database.write(lambda _: None)
            for _ in range(5):
                await asyncio.sleep(0)

    async def look(self, after: float = 0.0) -> None:
        """Let time pass and have the offices looked at."""
        self.clock.advance(after)
        await self.runtime.keeper.look()
        await self.settle()
