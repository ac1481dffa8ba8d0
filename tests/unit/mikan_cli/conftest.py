from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from console_world import ConsoleWorld


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    world = ConsoleWorld(tmp_path)
    await world.start()
    yield world
    await world.stop()
