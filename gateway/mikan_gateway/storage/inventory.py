"""Which offices there are and what each has used, for listings that must not wake an agent."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from mikan_api.identity import OfficeAddress, OfficeKey
from mikan_api.responder import Usage
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.tables import offices


@dataclass(frozen=True, slots=True)
class OfficeUsage:
    """An office as the database knows it. Times are seconds since the epoch."""

    key: OfficeKey
    address: OfficeAddress
    display_name: str
    messages: int
    runs: int
    usage: Usage
    created_at: float
    last_message_at: float


class Inventory:
    """Read-only view of all offices."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def offices(self) -> list[OfficeUsage]:
        """Every office that ever had a message, by key."""

        def work(connection: Connection) -> list[OfficeUsage]:
            rows = connection.execute(select(offices).order_by(offices.c.office))
            return [
                OfficeUsage(
                    key=OfficeKey(row.office),
                    address=OfficeAddress.parse(row.platform, row.conversation_id),
                    display_name=row.display_name,
                    messages=row.last_number,
                    runs=row.runs,
                    usage=Usage(
                        input_tokens=row.input_tokens,
                        output_tokens=row.output_tokens,
                        cost_usd=row.cost_usd,
                        model_calls=row.model_calls,
                    ),
                    created_at=row.created_at,
                    last_message_at=row.last_message_at,
                )
                for row in rows
            ]

        return await self._database.read(work)
