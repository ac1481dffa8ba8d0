"""A conversation runtime on a real database: what every gateway that tests build of one has in common."""

from gateway_doubles import FakeOffices, RecordingOutput, inbound
from mikan_api.identity import OfficeAddress, Platform
from mikan_gateway.runtime.conversation_runtime import ConversationRuntime
from mikan_gateway.storage.database import Database


class RuntimeWorld:
    """`restart` begins a new process on the same database."""

    database: Database
    runtime: ConversationRuntime

    def __init__(self) -> None:
        self.offices, self.output = FakeOffices(), RecordingOutput()

    async def start(self) -> None:
        """Open the database and start the runtime."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End the process."""
        await self.runtime.close()
        await self.database.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def office(self, conversation: str = "C1") -> None:
        """Make an office exist."""
        self.offices.add(OfficeAddress(Platform.CONSOLE, conversation))

    async def ask(self, message_id: str = "m1", session: str | None = None, conversation: str = "C1") -> str:
        """Submit a message that wants a run; its run."""
        submitted = await self.runtime.submit(inbound(conversation, message_id, session=session), True)
        assert submitted.run_id is not None
        return submitted.run_id
