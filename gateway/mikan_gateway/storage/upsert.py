"""``INSERT … ON CONFLICT``, which both databases have and SQLAlchemy keeps apart."""

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def upsert(connection: Connection, table: Table) -> sqlite.Insert:
    """An insert for this connection's dialect. Both dialects' inserts have the same conflict methods."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)  # type: ignore[return-value]
