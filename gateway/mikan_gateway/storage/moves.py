"""Conversations whose platform has given them another id: the first one stays theirs."""

from sqlalchemy import Connection, bindparam, select

from mikan_api.identity import OfficeAddress, Platform
from mikan_api.kill_points import Step
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.tables import moved_conversations, offices
from mikan_gateway.storage.upsert import upsert

_KNOWN = select(offices.c.office).where(offices.c.office == bindparam("of"))


class MoveStore:
    """The moves on one platform."""

    def __init__(self, database: Database, platform: Platform) -> None:
        self._database, self._platform = database, platform

    async def all(self) -> dict[str, str]:
        """By conversation, the id that it has now."""
        query = select(moved_conversations.c.conversation_id, moved_conversations.c.current_id).where(
            moved_conversations.c.platform == self._platform.value
        )
        return await self._database.read(lambda connection: {row[0]: row[1] for row in connection.execute(query)})

    async def add(self, conversation: str, current: str) -> bool:
        """Remember a move; ``False`` if nobody ever wrote in that conversation, so that there is nothing to keep."""
        office = OfficeAddress(self._platform, conversation).key

        def work(connection: Connection) -> bool:
            if connection.execute(_KNOWN, {"of": office}).scalar() is None:
                return False
            values = {"platform": self._platform.value, "conversation_id": conversation, "current_id": current}
            new = upsert(connection.dialect.name, moved_conversations)
            replaced = new.on_conflict_do_update(
                index_elements=["platform", "conversation_id"], set_={"current_id": new.excluded.current_id}
            )
            connection.execute(replaced, values)
            return True

        return await self._database.write(work, step=Step.MOVE_COMMIT)
