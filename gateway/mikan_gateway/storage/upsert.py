"""``INSERT … ON CONFLICT``, which both databases have and SQLAlchemy keeps apart."""

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite


def upsert(dialect: str, table: Table) -> sqlite.Insert:
    """An insert for a dialect, by its name. Both dialects' inserts have the same conflict methods."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)  # type: ignore[return-value]
