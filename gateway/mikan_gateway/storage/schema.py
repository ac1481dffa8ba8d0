"""Forward migrations. A database knows how many of them it has had; a newer one than we know is refused."""

from collections.abc import Callable

from sqlalchemy import Connection, insert, select, update

from mikan_api.exceptions import ConfigError
from mikan_gateway.storage.tables import metadata, schema_version


def _create_all(connection: Connection) -> None:
    metadata.create_all(connection)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_create_all,)
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
