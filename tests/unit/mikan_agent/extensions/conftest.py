from pathlib import Path

import pytest

from extension_world import ExtensionWorld


@pytest.fixture
def world(tmp_path: Path) -> ExtensionWorld:
    return ExtensionWorld(tmp_path)
