"""An operator process against a real API server, where a kubelet runs the pods."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mikan_dev.paths import kubeconfig, state_dir
from mikan_operator.storage.kubernetes import KubernetesApi, connect, load_configuration
from mikan_operator_testing.cluster import install_crds
from mikan_operator_testing.live import InPod, Live, live, write_inputs

HELPER_IMAGE = "localhost/mikan-sandbox-helper:dev"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these need a cluster."""
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.integration)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture
async def idle_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Live]:
    """Namespaces and volumes, and an operator that is not started yet."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig()))
    async with connect(await load_configuration()) as api:
        await install_crds(KubernetesApi(api, "default"))
        write_inputs(tmp_path, HELPER_IMAGE, idleTimeout="1h")
        async with live(api, tmp_path, state_dir() / "local-volumes", HELPER_IMAGE, "operator-it") as world:
            yield world


@pytest.fixture
async def world(idle_world: Live) -> Live:
    """The same with the operator running."""
    await idle_world.start(kubeconfig())
    return idle_world


@pytest.fixture
def in_pod(world: Live) -> InPod:
    return InPod(world)
