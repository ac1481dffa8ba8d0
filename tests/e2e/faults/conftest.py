"""One cluster of its own for the whole folder, whose parts are stopped, killed, cut off and filled.

Nothing of the cluster under test is used, so these tests run beside any others. `MIKAN_FAULTS_STATE` names the state of
a cluster that is brought up, or taken over if it is up, and left up, for who works on these tests.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from free_port import free_port
from mikan_cluster.installation import Installation
from mikan_cluster.own import OwnCluster
from mikan_cluster.release import Release
from mikan_cluster.terminal import Terminal, Terminals

IMAGES = ("operator", "gateway", "models", "agent", "sandbox", "sandbox-helper", "busybox")
SMALL = {"state": "32m", "shared": "16m"}
"""Volumes of the release that are small enough to be filled, and their sizes."""
RECOVERIES = pytest.StashKey[dict[str, float]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RECOVERIES] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell how long each recovery took: measured, never asserted."""
    if config.stash[RECOVERIES]:
        terminalreporter.section("seconds to recover")
    for what, seconds in sorted(config.stash[RECOVERIES].items()):
        terminalreporter.write_line(f"{seconds:6.1f}  {what}")


@pytest.fixture(scope="session", autouse=True)
def resting() -> None:
    """In place of the release at rest on the cluster under test: nothing."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """A cluster with the images of this checkout."""
    kept = os.environ.get("MIKAN_FAULTS_STATE")
    state = Path(kept) if kept else tmp_path_factory.mktemp("faults") / "state"
    found = OwnCluster(state, int(os.environ.get("MIKAN_FAULTS_PORT") or free_port()))
    try:
        found.run("up.sh")
        found.run("image.sh", *IMAGES)
        yield found
    finally:
        if not kept:
            found.run("down.sh")


@pytest.fixture(scope="session")
def release(cluster: OwnCluster) -> Release:
    """The release that all of these tests break."""
    found = Release(cluster.kubectl, cluster.helm, name="faults", namespace="faults")
    claims = {"state": f"{found.namespace}/faults-state", "shared": f"{found.offices}/faults-shared"}
    for volume, size in SMALL.items():
        cluster.run("volumes.sh", "small", size, f"faults-{volume}", claims[volume])
    found.install(*(argument for volume in SMALL for argument in ("--set", f"storage.{volume}.size=8Mi")))
    return found


@pytest.fixture(scope="session")
def terminals(cluster: OwnCluster, release: Release) -> Iterator[Terminals]:
    """Whoever types."""
    found = Terminals(cluster, release)
    yield found
    found.close()


@pytest.fixture
def installation(cluster: OwnCluster, release: Release) -> Iterator[Installation]:
    """The release, well before and after."""
    found = Installation(cluster, release)
    found.await_ready()
    yield found
    found.await_ready()


@pytest.fixture
def new_chat(installation: Installation, terminals: Terminals) -> Iterator[Callable[[], Terminal]]:
    """Conversations of the test's own. When it is over each message must have been answered once; their offices go."""
    opened: list[Terminal] = []

    def new() -> Terminal:
        opened.append(terminals.new())
        return opened[-1]

    yield new
    try:
        for chat in opened:
            chat.close()
    finally:
        keys = [chat.key for chat in opened]
        release = installation.release
        release.kubectl("delete", "office", *keys, "-n", release.offices, "--ignore-not-found", "--wait=false")


@pytest.fixture
def recovery(request: pytest.FixtureRequest) -> Callable[[str], AbstractContextManager[None]]:
    """Measures how long something takes to be well again."""

    @contextmanager
    def measured(what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        request.config.stash[RECOVERIES][what] = time.monotonic() - began

    return measured
