from collections.abc import Iterator
from pathlib import Path

import pytest

from git_server import GitServer
from mikan_gateway.packages.installer import Installer
from mikan_gateway.packages.volume import Volume


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path / "repositories") as server:
        yield server


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


@pytest.fixture
def installer(volume: Path) -> Installer:
    return Installer(Volume(volume), loopback=True)
