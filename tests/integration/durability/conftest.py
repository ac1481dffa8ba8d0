"""Mothers of processes, and worlds of theirs on a real API server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes import config
from kubernetes.client import CustomObjectsApi

from api_server_fixtures import kubectl, namespace
from durability_world import DurableWorld
from forked import Mother
from mikan_cluster.commands import Kubectl

__all__ = ["kubectl", "namespace"]

NewWorld = Callable[..., DurableWorld]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs an API server."""
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def mothers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Mother, Mother]]:
    """Of gateways and of agents."""
    root = tmp_path_factory.mktemp("mothers")
    gateways = Mother("durability_gateway:main", root / "gateway")
    agents = Mother("durability_agent:main", root / "agent")
    yield gateways, agents
    gateways.stop()
    agents.stop()


@pytest.fixture(scope="session")
def offices(kubectl: Kubectl) -> Iterator[CustomObjectsApi]:
    """The API server, for questions about Offices."""
    with config.new_client_from_config(str(kubectl.kubeconfig)) as client:
        yield CustomObjectsApi(client)


@pytest.fixture
def new_world(
    tmp_path: Path, mothers: tuple[Mother, Mother], offices: CustomObjectsApi, kubectl: Kubectl, namespace: str
) -> NewWorld:
    """Makes a world."""

    def new_world(database_url: str = "") -> DurableWorld:
        return DurableWorld(tmp_path, mothers, offices, kubectl.kubeconfig, namespace, database_url)

    return new_world
