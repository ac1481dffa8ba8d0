"""Fixtures of tests with real pods: one cluster and one release for the whole run, a conversation for each test."""

import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mikan_cluster.commands import Helm, Kubectl
from mikan_cluster.release import Chat, Release, Resting
from mikan_dev import paths
from mikan_dev.paths import cache_dir

HERE = Path(__file__).parent
AT_REST = "test_at_rest.py"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs a cluster; what watches a release at rest comes last, when it need not wait long."""
    for item in items:
        if HERE in Path(item.path).parents:
            item.add_marker(pytest.mark.e2e)
            if item.get_closest_marker("timeout") is None:
                # Installing and removing a release counts too, and machines are slow at times.
                item.add_marker(pytest.mark.timeout(300))
    items.sort(key=lambda item: item.path.name == AT_REST)


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    return paths.kubeconfig()


@pytest.fixture(scope="session")
def kubectl(kubeconfig: Path) -> Kubectl:
    return Kubectl(cache_dir() / "bin" / "kubectl", kubeconfig)


@pytest.fixture(scope="session")
def helm(kubeconfig: Path) -> Helm:
    return Helm(cache_dir() / "bin" / "helm", kubeconfig)


@pytest.fixture(scope="session")
def release(kubectl: Kubectl, helm: Helm) -> Iterator[Release]:
    """The release that most tests share; those that break one install their own."""
    shared = Release(kubectl, helm, name="e2e", namespace="e2e", values=("--values", str(HERE / "values.yaml")))
    # The key that the independent model server is asked with; it takes any.
    keys = {
        "metadata": {"name": "model-keys", "namespace": shared.namespace},
        "stringData": {"elsewhere": "sk-elsewhere"},
    }
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shared.namespace}},
        {"apiVersion": "v1", "kind": "Secret", **keys},
    )
    shared.install()
    yield shared
    shared.remove()


@pytest.fixture(scope="session", autouse=True)
def resting(request: pytest.FixtureRequest, kubectl: Kubectl, helm: Helm) -> Iterator[Resting | None]:
    """A release with one running office that nobody touches, watched while the other tests run."""
    if not any(
        "resting" in getattr(item, "fixturenames", ()) and item.path.name == AT_REST for item in request.session.items
    ):
        yield None
        return
    quiet = Release(kubectl, helm, name="rest", namespace="rest", values=("--set", "settings.idleTimeout=4h"))
    quiet.install()
    Chat(quiet).say("run: true")
    time.sleep(15)
    yield Resting(quiet, since=time.time())
    quiet.remove()


@pytest.fixture
def own(kubectl: Kubectl, helm: Helm) -> Iterator[Release]:
    """A release of a test's own, not yet installed; whatever is left of it is removed."""
    name = f"own-{secrets.token_hex(3)}"
    release = Release(kubectl, helm, name=name, namespace=name)
    yield release
    release.remove()


@pytest.fixture
def chat(release: Release) -> Iterator[Chat]:
    """A conversation of the test's own; its office goes when the test is over."""
    conversation = Chat(release)
    yield conversation
    release.kubectl("delete", "office", conversation.key, "-n", release.offices, "--ignore-not-found", "--wait=false")
