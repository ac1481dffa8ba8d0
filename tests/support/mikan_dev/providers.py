"""The three ways to a cluster: a context the user names, kind, and our own processes without Docker.

Each starts its cluster, stops it, and gives it images. Which one is taken, and what was started, is
`mikan_dev.cluster`'s to know.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from mikan_dev import images
from mikan_dev.contexts import require_allowed
from mikan_dev.exceptions import CommandFailed, DevError, NotUp, ToolMissing
from mikan_dev.paths import CLUSTER_SCRIPTS, REPOSITORY, cache_dir, state_dir
from mikan_dev.programs import run, say, step, stream, which

PUBLIC_IMAGES = {
    "python": ("docker.io/library/python:3.11-slim-bookworm", "localhost/python:3.11"),
    "busybox": ("docker.io/library/busybox:1", "localhost/busybox:1"),
}
"""Test images that Docker can pull: where from, and the name the tests know."""


class Provider(Protocol):
    """One way to a cluster."""

    kind: ClassVar[str]

    def running(self) -> bool:
        """Whether the cluster is up already."""

    def up(self) -> None:
        """Start it and wait until it is ready; an already running one is left as it is."""

    def down(self) -> None:
        """Stop it and remove what it left."""

    def load(self, names: Sequence[str]) -> None:
        """Build images, by the short names of `mikan_dev.images`, and give them to the cluster."""

    def kubeconfig(self) -> Path:
        """A kubeconfig whose current context is this cluster's, and that names no other."""


def own_kubeconfig() -> Path:
    """Where the kubeconfig of a cluster that is not ours is kept, apart from the user's."""
    return state_dir().with_name(state_dir().name + ".kubeconfig")


class OwnCluster:
    """Upstream Kubernetes as plain processes (`tests/cluster/`): Linux and root, no Docker."""

    kind: ClassVar[str] = "own"

    def running(self) -> bool:
        """Whether this state's node lives and was ready once."""
        try:
            run(CLUSTER_SCRIPTS / "ctl.sh", "node", "true")
        except CommandFailed:
            return False
        return (state_dir() / "ready").exists()

    def up(self) -> None:
        """Fill the cache if need be (14 to 20 minutes on 2 cores from nothing), then start: about 10 s.

        Raises:
            DevError: This machine cannot run it; the message says what can be done instead.
        """
        if platform.system() != "Linux" or os.geteuid() != 0:
            raise DevError(
                "a cluster of plain processes needs Linux and root, and no Docker answers here: "
                "start Docker and install kind, run as root, or name a cluster's context in MIKAN_CONTEXT"
            )
        self._unpack()
        with step("binaries"):
            stream(CLUSTER_SCRIPTS / "build.sh")
        with step("cluster"):
            stream(CLUSTER_SCRIPTS / "up.sh")

    def down(self) -> None:
        """Stop the node and everything in it."""
        stream(CLUSTER_SCRIPTS / "down.sh")

    def load(self, names: Sequence[str]) -> None:
        """Build without Docker and import."""
        builder = images.Builder(cache_dir())
        images.load(builder.store, images.build(builder, names))

    def kubeconfig(self) -> Path:
        """The cluster's own administrator."""
        return Path(os.environ.get("MIKAN_CLUSTER_KUBECONFIG") or state_dir() / "admin.kubeconfig")

    def _unpack(self) -> None:
        """Fill an empty cache from `MIKAN_CLUSTER_PREBUILT`; an archive that does not fit is built over."""
        prebuilt = os.environ.get("MIKAN_CLUSTER_PREBUILT")
        if prebuilt and Path(prebuilt).exists() and not (cache_dir() / "bin" / ".key").exists():
            try:
                stream(CLUSTER_SCRIPTS / "unpack.sh", prebuilt)
            except CommandFailed:
                say("the prebuilt archive was not used: building instead")


class KindCluster:
    """A kind cluster `mikan`, where Docker answers."""

    kind: ClassVar[str] = "kind"
    NAME: ClassVar[str] = "mikan"

    @staticmethod
    def available() -> bool:
        """Whether Docker answers and kind is installed."""
        try:
            run("docker", "info")
        except (CommandFailed, ToolMissing):
            return False
        if shutil.which("kind") is None:
            say("Docker answers, but kind is not installed: going on without them")
            return False
        return True

    def running(self) -> bool:
        """Whether kind knows the cluster."""
        return self.NAME in run("kind", "get", "clusters").split()

    def up(self) -> None:
        """Create it, unless it is there."""
        if not self.running():
            with step("kind cluster"):
                stream("kind", "create", "cluster", "--name", self.NAME, "--wait", "180s", "--kubeconfig", self._file())

    def down(self) -> None:
        """Delete it."""
        stream("kind", "delete", "cluster", "--name", self.NAME, "--kubeconfig", self._file())

    def load(self, names: Sequence[str]) -> None:
        """Build with Docker and copy into the node."""
        for image in docker_images(names):
            stream("kind", "load", "docker-image", "--name", self.NAME, image)

    def kubeconfig(self) -> Path:
        """kind's own, in a file apart."""
        write_private(self._file(), run("kind", "get", "kubeconfig", "--name", self.NAME))
        return self._file()

    @staticmethod
    def _file() -> Path:
        return own_kubeconfig()


class NamedContext:
    """A cluster of the user's: used, never started or stopped."""

    kind: ClassVar[str] = "context"

    def __init__(self, context: str, environment: Mapping[str, str] = os.environ) -> None:
        require_allowed(context, environment)
        self.context = context

    def running(self) -> bool:
        """Whether its API server says that it is ready."""
        try:
            run(tool("kubectl"), "--context", self.context, "get", "--raw", "/readyz")
        except CommandFailed:
            return False
        return True

    def up(self) -> None:
        """Check that it answers.

        Raises:
            NotUp: It does not.
        """
        if not self.running():
            raise NotUp(f"context {self.context!r} does not answer: start that cluster, or unset MIKAN_CONTEXT")

    def down(self) -> None:
        """Leave it as it is."""

    def load(self, names: Sequence[str]) -> None:
        """Build with Docker and hand over by the tool of that kind of cluster.

        Raises:
            DevError: No tool is known for it.
        """
        command = self._loader()
        for image in docker_images(names):
            if command:
                stream(*command, image)

    def kubeconfig(self) -> Path:
        """The user's entry for this context alone, copied into a file apart."""
        view = ("config", "view", "--raw", "--minify", "--flatten", "--context", self.context)
        write_private(own_kubeconfig(), run(tool("kubectl"), *view))
        return own_kubeconfig()

    def _loader(self) -> tuple[str, ...]:
        """Command that takes one image more; empty where the cluster shares Docker's images."""
        context = self.context
        loaders: dict[str, tuple[str, ...]] = {
            "kind-": ("kind", "load", "docker-image", "--name", context.removeprefix("kind-")),
            "k3d-": ("k3d", "image", "import", "--cluster", context.removeprefix("k3d-")),
            "minikube": ("minikube", "image", "load", "--profile", context),
            "docker-desktop": (),
        }
        for prefix, command in loaders.items():
            if context.startswith(prefix):
                return command
        raise DevError(
            f"images cannot be copied into {context!r}: push them to a registry that it reads "
            "and set the chart's image values"
        )


def docker_images(names: Sequence[str]) -> list[str]:
    """Build or pull images with Docker, by their short names, all of the project's when there is none."""
    built = []
    for name in names or [*images.MODULES, "sandbox", "sandbox-helper"]:
        if name in PUBLIC_IMAGES:
            source, image = PUBLIC_IMAGES[name]
            stream("docker", "pull", "--quiet", source)
            stream("docker", "tag", source, image)
        else:
            image = f"localhost/mikan-{name}:dev"
            stream("docker", "build", "-f", REPOSITORY / "images" / name / "Dockerfile", "-t", image, REPOSITORY)
        built.append(image)
    return built


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(text)


def tool(name: str) -> Path:
    """kubectl or helm: the cache's, which fits our cluster, else the one on PATH; helm is built where there is none.

    Raises:
        ToolMissing: There is none and it cannot be built in reasonable time.
    """
    cached = cache_dir() / "bin" / name
    if name == "helm" and not cached.exists() and shutil.which(name) is None:
        stream(CLUSTER_SCRIPTS / "build.sh", name)
    return which(name, cached)
