from collections.abc import AsyncIterator

import pytest

from gateway_fixtures import database, database_url
from gateway_world import World

__all__ = ["database", "database_url"]


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    world = World(database_url)
    await world.start()
    yield world
    await world.stop()
