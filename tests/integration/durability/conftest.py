"""Mothers of processes, and worlds of theirs on a real API server."""

from pathlib import Path

import pytest

from api_server_fixtures import kubectl, namespace
from durability_fixtures import cluster, mothers, new_world

__all__ = ["cluster", "kubectl", "mothers", "namespace", "new_world"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs an API server."""
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.integration)
