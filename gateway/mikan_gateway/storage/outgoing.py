"""Intents to send: stored before a message goes out, marked once the platform has answered.

A crash in between leaves an intent without a message id; its nonce lets a platform that can find out whether the
message arrived (architecture section 5).
"""

from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection, Row, bindparam, select, update
from sqlalchemy.sql.dml import ReturningInsert

from mikan_api.kill_points import Step
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.tables import outgoing
from mikan_gateway.storage.upsert import upsert


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message of a run on its way out. ``message_id`` is ``None`` until it is known to have been sent."""

    run_id: str
    slot: str
    nonce: str
    message_id: str | None


class OutgoingStore:
    """The intents of all runs. A slot is a place for one message of a run, named by the renderer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, run_id: str, slot: str, nonce: str) -> Outgoing:
        """Store the intent. If there is one already it is returned as it is, with the nonce of then."""

        def work(connection: Connection) -> Outgoing:
            if _insert(connection, run_id, slot, nonce):
                return Outgoing(run_id, slot, nonce, None)
            found = _find(connection, run_id, slot)
            assert found is not None  # noqa: S101  it kept the insert from being one
            return found

        return await self._database.write(work, step=Step.INTENT_COMMIT)

    async def begin_run(self, run_id: str, slot: str, nonce: str) -> list[Outgoing]:
        """Store the intent as `begin` does; every intent of the run, by slot."""

        def work(connection: Connection) -> list[Outgoing]:
            _insert(connection, run_id, slot, nonce)
            return _all(connection, run_id)

        return await self._database.write(work, step=Step.INTENT_COMMIT)

    async def sent(self, run_id: str, slot: str, message_id: str) -> None:
        """Mark an intent as sent under the platform's message id."""
        values = {"run": run_id, "place": slot, "sent_as": message_id}

        def work(connection: Connection) -> None:
            connection.execute(_SENT, values)

        await self._database.write(work, step=Step.SENT_COMMIT)

    async def get(self, run_id: str, slot: str) -> Outgoing | None:
        """The intent for a slot, if there is one."""
        return await self._database.read(lambda connection: _find(connection, run_id, slot))

    async def of_run(self, run_id: str) -> list[Outgoing]:
        """Every intent of a run, by slot."""
        return await self._database.read(lambda connection: _all(connection, run_id))


# Built once: building costs more than running them.
_MINE = (outgoing.c.run_id == bindparam("run")) & (outgoing.c.slot == bindparam("place"))
_GET = select(outgoing).where(_MINE)
_ALL = select(outgoing).where(outgoing.c.run_id == bindparam("run")).order_by(outgoing.c.slot)
_SENT = update(outgoing).where(_MINE).values(message_id=bindparam("sent_as"))


@cache
def _begin(dialect: str) -> ReturningInsert[str]:
    return upsert(dialect, outgoing).on_conflict_do_nothing().returning(outgoing.c.slot)


def _insert(connection: Connection, run_id: str, slot: str, nonce: str) -> bool:
    """Whether there was no such intent yet."""
    values = {"run_id": run_id, "slot": slot, "nonce": nonce}
    return connection.execute(_begin(connection.dialect.name), values).scalar() is not None


def _all(connection: Connection, run_id: str) -> list[Outgoing]:
    return [_outgoing(row) for row in connection.execute(_ALL, {"run": run_id})]


def _find(connection: Connection, run_id: str, slot: str) -> Outgoing | None:
    row = connection.execute(_GET, {"run": run_id, "place": slot}).one_or_none()
    return None if row is None else _outgoing(row)


def _outgoing(row: Row[tuple[object, ...]]) -> Outgoing:
    return Outgoing(row.run_id, row.slot, row.nonce, row.message_id)
