"""Fixtures of `durability_world`, to be imported by the ``conftest.py`` of who needs them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import config
from kubernetes.client import CustomObjectsApi

from durability_world import Cluster, DurableWorld, Mothers
from mikan_cluster.commands import Kubectl

NewWorld = Callable[..., DurableWorld]


@pytest.fixture(scope="session")
def mothers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mothers]:
    """Of every kind of process."""
    mothers = Mothers(tmp_path_factory.mktemp("mothers"))
    yield mothers
    mothers.stop()


@pytest.fixture(scope="session")
def cluster(kubectl: Kubectl, namespace: str) -> Iterator[Cluster]:
    """The API server, and a namespace of one's own."""
    with config.new_client_from_config(str(kubectl.kubeconfig)) as client:
        yield Cluster(CustomObjectsApi(client), kubectl.kubeconfig, namespace)


@pytest.fixture
def new_world(tmp_path: Path, mothers: Mothers, cluster: Cluster) -> NewWorld:
    """Makes a world; arguments as `DurableWorld` has them."""

    def new_world(**options: Any) -> DurableWorld:
        return DurableWorld(tmp_path, mothers, cluster, **options)

    return new_world
