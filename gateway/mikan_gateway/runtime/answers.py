"""The gateway's own answers: durable before anybody waits no longer, then shown in the order of their conversation."""

from sqlalchemy import Connection

from mikan_api.kill_points import Step
from mikan_gateway.ports import InboundMessage, OwnAnswer
from mikan_gateway.runtime.clock import Clock
from mikan_gateway.runtime.output import OutputPump
from mikan_gateway.storage.answers import answer_operations, is_answered, store_answer
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.runs import StoredRun


class Prepared:
    """An answer that is stored with what it tells of: `store` in the transaction, `show` after its commit."""

    def __init__(self, answer: OwnAnswer, pump: OutputPump, now: float) -> None:
        self._answer, self._pump, self._now = answer, pump, now
        self._stored: StoredRun | None = None

    def store(self, connection: Connection) -> None:
        self._stored = store_answer(connection, self._answer, self._now)

    def show(self) -> None:
        if self._stored is None:
            return
        for operation in answer_operations(self._stored.office, self._stored.run_id, self._answer.text):
            self._pump.add(self._stored.record, operation)


class OwnAnswers:
    """Stores answers and has them shown."""

    def __init__(self, database: Database, pump: OutputPump, clock: Clock) -> None:
        self._database, self._pump, self._clock = database, pump, clock

    def prepare(self, answer: OwnAnswer) -> Prepared:
        """For a transaction of the caller's."""
        return Prepared(answer, self._pump, self._clock.now())

    async def answer(self, answer: OwnAnswer) -> None:
        """As `mikan_gateway.ports.RunQueue.answer`.

        Raises:
            StorageError: the database failed; nothing was stored.
        """
        prepared = self.prepare(answer)
        await self._database.write(prepared.store, lambda _: prepared.show(), Step.REPLY_COMMIT)

    async def answered(self, message: InboundMessage) -> bool:
        """As `mikan_gateway.ports.RunQueue.answered`.

        Raises:
            StorageError: the database failed.
        """
        return await self._database.read(lambda connection: is_answered(connection, message))
