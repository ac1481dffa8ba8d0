"""Forward migrations. A database knows how many of them it has had; a newer one than we know is refused."""

import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Column, Connection, Table, insert, inspect, select, update
from sqlalchemy.schema import CreateColumn

from mikan_api.exceptions import ConfigError
from mikan_gateway.storage.tables import messages, metadata, moved_conversations, offices, schema_version


def _create_all(connection: Connection) -> None:
    metadata.create_all(connection)


def _know_ages(connection: Connection) -> None:
    """What was stored before counts as stored now."""
    _add(connection, offices, offices.c.written_number)
    if _add(connection, messages, messages.c.stored_at):
        connection.execute(update(messages).values(stored_at=time.time()))


def _add(connection: Connection, table: Table, column: "Column[Any]") -> bool:
    """Add a column where `_create_all` has not made it already; whether it did."""
    if column.name in {found["name"] for found in inspect(connection).get_columns(table.name)}:
        return False
    rendered = CreateColumn(column).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {rendered}")
    return True


def _know_moves(connection: Connection) -> None:
    moved_conversations.create(connection, checkfirst=True)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_create_all, _know_ages, _know_moves)
"""Number ``n`` leads from version ``n`` to ``n + 1``. One that has been released is never changed."""


def touch(connection: Connection) -> None:
    """Write what is there already, to see whether the database takes it."""
    connection.execute(update(schema_version).values(version=schema_version.c.version))


def migrate(connection: Connection) -> None:
    """Bring the schema up to date, in the caller's transaction.

    Raises:
        ConfigError: the database was written by a newer release.
    """
    schema_version.create(connection, checkfirst=True)
    found = connection.execute(select(schema_version.c.version)).scalar()
    if found is None:
        connection.execute(insert(schema_version).values(version=0))
    version = found or 0
    if version > len(MIGRATIONS):
        raise ConfigError(
            f"the database has schema version {version}, this release knows {len(MIGRATIONS)}: install the newer "
            "release again"
        )
    for migration in MIGRATIONS[version:]:
        migration(connection)
    if version < len(MIGRATIONS):
        connection.execute(update(schema_version).values(version=len(MIGRATIONS)))
