"""Fixtures of the models process's unit tests."""

from pathlib import Path

import pytest

from models_service import ModelsFixture


@pytest.fixture
def models(tmp_path: Path) -> ModelsFixture:
    """A models process that is configured with the scripted model alone."""
    return ModelsFixture(tmp_path)
