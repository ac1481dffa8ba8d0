"""A real API server, and a namespace of one's own in it."""

from pathlib import Path

import pytest

from api_server_fixtures import api, conversation, kubectl, namespace

__all__ = ["api", "conversation", "kubectl", "namespace"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs an API server."""
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.integration)
