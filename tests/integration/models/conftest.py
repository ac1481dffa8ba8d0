"""aimock, and models processes in front of it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aimock import aimock
from models_service import ModelsFixture, RunningModels, three_ways

FIXTURES = Path(__file__).parents[2] / "data" / "models" / "aimock.json"


@pytest.fixture(scope="session")
def aimock_url() -> Iterator[str]:
    """Base URL of aimock."""
    with aimock(FIXTURES) as url:
        yield url


@pytest.fixture
async def running(tmp_path: Path, aimock_url: str) -> AsyncIterator[RunningModels]:
    """A real server in front of aimock."""
    models = ModelsFixture(tmp_path)
    three_ways(models, f"{aimock_url}/v1", aimock_url)
    async with models.served() as running:
        await running.until_ready()
        yield running
