"""Fixtures of a real API server, to be imported by the ``conftest.py`` of who needs them."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
from kubernetes.aio.client import ApiClient

from mikan_cluster.commands import Kubectl, eventually
from mikan_dev.paths import REPOSITORY, cache_dir, kubeconfig
from mikan_gateway.offices.client import connect


@pytest.fixture(scope="session")
def kubectl() -> Kubectl:
    """The cluster under test, with our kinds in it."""
    kubectl = Kubectl(cache_dir() / "bin" / "kubectl", kubeconfig())
    if "offices.mikan.dev" not in kubectl("get", "crd", "-o", "name"):
        kubectl("apply", "--server-side", "-f", str(REPOSITORY / "crds"))
        kinds = ("offices", "vaults", "scheduledevents")
        kubectl("wait", "--for=condition=Established", *(f"crd/{k}.mikan.dev" for k in kinds), "--timeout=30s")
        # Served a moment after it was established.
        eventually("our kinds are served", lambda: [kubectl("get", f"{k}.mikan.dev", "-A") for k in kinds])
    return kubectl


@pytest.fixture(scope="session")
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """A namespace of one's own."""
    name = f"gateway-{secrets.token_hex(4)}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
async def api(kubectl: Kubectl) -> AsyncIterator[ApiClient]:
    """A client of it."""
    client = await connect(str(kubectl.kubeconfig))
    yield client
    await client.close()
    # aiohttp's TLS connections end a moment after their session (its manual, "Graceful Shutdown").
    await asyncio.sleep(0.25)


@pytest.fixture
def conversation() -> str:
    """A conversation that no other test uses."""
    return f"T{secrets.token_hex(4)}"
