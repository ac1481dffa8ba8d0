from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from event_world import EventGateway
from gateway_fixtures import database_url

__all__ = ["database_url"]


@pytest.fixture
async def gateway(database_url: str, tmp_path: Path) -> AsyncIterator[EventGateway]:
    """A gateway with one office, C1, on each kind of database."""
    gateway = EventGateway(database_url, tmp_path / "spool")
    await gateway.start()
    gateway.office()
    yield gateway
    await gateway.stop()
