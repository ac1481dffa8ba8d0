"""A namespace on a real API server, where everything is tried without being kept."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mikan_dev.paths import kubeconfig
from mikan_operator.exceptions import NotFound
from mikan_operator.storage.kinds import Kind, Manifest
from mikan_operator.storage.kubernetes import KubernetesApi, connect, load_configuration
from mikan_operator_testing.cluster import install_crds
from mikan_operator_testing.live import NAMESPACE

MADE = pytest.StashKey[set[str]]()
DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}


class Trial:
    """Asks the API server and keeps nothing."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    async def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        """What would be stored. Raises `Invalid` where it is refused."""
        return await self.api._request("POST", kind.path(self.namespace), DRY_RUN, manifest)

    async def merge(self, kind: Kind, name: str, body: dict[str, Any], subresource: str = "") -> Manifest:
        """What a change would make of a stored object."""
        path = kind.path(self.namespace, name, subresource)
        return await self.api._request("PATCH", path, DRY_RUN, body, "application/merge-patch+json")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks the API server needs one."""
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents and "trial" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def namespace_name() -> str:
    """One namespace for all of these tests."""
    return f"contract-api-{secrets.token_hex(3)}"


@pytest.fixture
async def trial(
    monkeypatch: pytest.MonkeyPatch, namespace_name: str, request: pytest.FixtureRequest
) -> AsyncIterator[Trial]:
    """The namespace is made by the first test and goes with the last."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig()))
    async with connect(await load_configuration()) as api:
        root = KubernetesApi(api, "default")
        try:
            await root.get(NAMESPACE, namespace_name)
        except NotFound:
            await install_crds(root)
            await root.create(NAMESPACE, {"metadata": {"name": namespace_name}})
            request.session.stash.setdefault(MADE, set()).add(namespace_name)
        yield Trial(KubernetesApi(api, namespace_name), namespace_name)


@pytest.fixture(scope="session", autouse=True)
def _cleanup(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for name in request.session.stash.get(MADE, set()):
        asyncio.run(_remove(name))


async def _remove(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(kubeconfig()))
        async with connect(await load_configuration()) as api:
            await KubernetesApi(api, "default")._request("DELETE", NAMESPACE.path("", name))
