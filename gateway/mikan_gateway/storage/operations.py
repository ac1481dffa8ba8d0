"""Operations of agents from their commit until they have been shown, and the notices of our own among them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, delete, insert, select

from mikan_api.identity import OfficeKey
from mikan_api.responder import ResponderOperation
from mikan_gateway.storage.tables import operations

_ADAPTER: TypeAdapter[Any] = TypeAdapter(ResponderOperation)


# Built once: building costs more than running them.
_INSERT = insert(operations)
_FORGET = delete(operations).where(
    operations.c.office == bindparam("of"),
    operations.c.incarnation == bindparam("by"),
    operations.c.number == bindparam("no"),
)


@dataclass(frozen=True, slots=True)
class StoredOperation:
    """An operation to be shown, or (``operation`` is ``None``) the notice that its run was cut off."""

    office: OfficeKey
    incarnation: str
    number: int
    run_id: str
    operation: ResponderOperation | None

    def row(self) -> dict[str, Any]:
        """Its row."""
        return {
            "office": self.office,
            "incarnation": self.incarnation,
            "number": self.number,
            "run_id": self.run_id,
            "kind": "cut_off" if self.operation is None else "operation",
            "payload": "{}" if self.operation is None else self.operation.model_dump_json(by_alias=True),
        }


OutputKind = Literal["operation", "cut_off"]


def insert_outputs(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Store what is to be shown, in order."""
    if rows:
        connection.execute(_INSERT, list(rows))


def outputs(connection: Connection) -> list[StoredOperation]:
    """All that is still to be shown, in the order it was committed."""
    return [
        StoredOperation(
            office=OfficeKey(row.office),
            incarnation=row.incarnation,
            number=row.number,
            run_id=row.run_id,
            operation=None if row.kind == "cut_off" else _ADAPTER.validate_json(row.payload),
        )
        for row in connection.execute(select(operations).order_by(operations.c.id))
    ]


def forget_outputs(connection: Connection, shown: Sequence[StoredOperation]) -> None:
    """These have been shown."""
    if shown:
        rows = [{"of": one.office, "by": one.incarnation, "no": one.number} for one in shown]
        connection.execute(_FORGET, rows)
