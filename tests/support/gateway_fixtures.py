"""Fixtures of the gateway's durable path, to be imported by the ``conftest.py`` of who needs them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mikan_gateway.storage.database import Database
from postgres import postgres_server


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/mikan.db"
    return postgres_server().create_database()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An open database of each kind."""
    database = await Database.open(database_url)
    yield database
    await database.close()
