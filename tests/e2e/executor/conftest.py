"""Sandbox pods on a real cluster, each made as a restricted namespace demands it."""

import base64
import json
import os
import secrets
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from mikan_agent.executor import ApiServer, ExecutorConfig, HelperExecutor, PathContext, PodTarget
from mikan_agent.executor.pod_exec import PodDialer
from mikan_api.sandbox_mode import parse_sandbox_mode
from mikan_dev.paths import cache_dir, kubeconfig

HELPER_IMAGE = os.environ.get("MIKAN_HELPER_IMAGE", "localhost/mikan-sandbox-helper:dev")
IMAGES = {"debian": "localhost/python:3.11", "busybox": "localhost/busybox:1"}
USER = 10001
DIRECTORIES = {
    "bin": "/mikan/bin",
    "run": "/mikan/run",
    "home": "/home/mikan",
    "tmp": "/tmp",
    "workspace": "/workspace",
}
CONTEXT = PathContext(PurePosixPath("/workspace"))
CONFIG = ExecutorConfig(parse_sandbox_mode("image:localhost/python:3.11"), vault_env=True, vault_files=True)


@dataclass
class Cluster:
    """One namespace of the cluster under test."""

    kubeconfig: Path
    namespace: str = field(default_factory=lambda: f"executor-e2e-{secrets.token_hex(4)}")

    def kubectl(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        """Run kubectl in the namespace."""
        program = shutil.which("kubectl", path=f"{cache_dir() / 'bin'}:{os.environ['PATH']}") or "kubectl"
        command = [program, f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *arguments]
        data = stdin.encode() if isinstance(stdin, str) else stdin
        return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True, timeout=100).stdout.decode()

    def apply(self, manifest: dict[str, Any]) -> None:
        """Create or change an object."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def pod(self, name: str) -> dict[str, Any]:
        """A pod as it is now."""
        found: dict[str, Any] = json.loads(self.kubectl("get", "pod", name, "-o", "json"))
        return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A restricted namespace of our own."""
    made = Cluster(kubeconfig())
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    made.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.namespace, "labels": labels}},
    )
    yield made
    made.kubectl("delete", "namespace", made.namespace, "--wait=false")


@pytest.fixture(scope="module")
def api_server(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> ApiServer:
    """The API server, to which we are the admin of the kubeconfig."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    directory = tmp_path_factory.mktemp("tls")

    def material(source: dict[str, str], name: str) -> Path:
        if name in source:
            return Path(source[name])
        path = directory / name
        path.write_bytes(base64.b64decode(source[f"{name}-data"]))
        return path

    def tls() -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=material(server, "certificate-authority"))
        context.load_cert_chain(material(user, "client-certificate"), material(user, "client-key"))
        return context

    return ApiServer(url=server["server"], headers=dict, tls=tls)


def manifest(name: str, image: str, **changes: Any) -> dict[str, Any]:
    """A sandbox pod. ``changes``: ``memory``, ``env``, ``secret``."""
    closed: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    mounts: list[dict[str, Any]] = [{"name": volume, "mountPath": path} for volume, path in DIRECTORIES.items()]
    mounts.append({"name": "small", "mountPath": "/small"})
    volumes: list[dict[str, Any]] = [{"name": volume, "emptyDir": {}} for volume in DIRECTORIES]
    volumes.append({"name": "small", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}})
    if "secret" in changes:
        mounts.append({"name": "vault", "mountPath": "/mikan/vault/data", "readOnly": True})
        volumes.append({"name": "vault", "secret": {"secretName": changes["secret"], "defaultMode": 0o440}})
    helper: dict[str, Any] = {
        "name": "install",
        "image": HELPER_IMAGE,
        "imagePullPolicy": "Never",
        "args": ["install", "/mikan/bin"],
        "securityContext": closed,
        "volumeMounts": [{"name": "bin", "mountPath": "/mikan/bin"}],
    }
    main = {
        "name": "sandbox",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["/mikan/bin/mikan-sandbox", "serve"],
        "env": [{"name": "HOME", "value": "/home/mikan"}, *changes.get("env", [])],
        "resources": {"limits": {"memory": changes.get("memory", "256Mi")}},
        "securityContext": closed,
        "volumeMounts": mounts,
    }
    spec = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [helper],
        "containers": [main],
        "volumes": volumes,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@dataclass
class Sandbox:
    """One sandbox pod and how to reach it."""

    cluster: Cluster
    name: str
    dialer: PodDialer

    def executor(self, **options: Any) -> HelperExecutor:
        """An Executor over a stream of its own."""
        return HelperExecutor(self.dialer, CONFIG, CONTEXT, **options)


@pytest.fixture
def config() -> ExecutorConfig:
    """What any Executor of these pods is."""
    return CONFIG


@pytest.fixture
def context() -> PathContext:
    """The workspace of these pods."""
    return CONTEXT


MakeSandbox = Callable[..., Sandbox]


@pytest.fixture(scope="module")
def make_sandbox(cluster: Cluster, api_server: ApiServer) -> MakeSandbox:
    """Creates a sandbox pod, and does not wait for it."""

    def make(image: str, **changes: Any) -> Sandbox:
        name = f"s-{secrets.token_hex(4)}"
        cluster.apply(manifest(name, IMAGES[image], **changes))
        return Sandbox(cluster, name, PodDialer(api_server, PodTarget(namespace=cluster.namespace, pod=name)))

    return make


@pytest.fixture(scope="module", params=sorted(IMAGES))
def sandbox(request: pytest.FixtureRequest, make_sandbox: MakeSandbox) -> Sandbox:
    """A sandbox pod of each image in turn."""
    return make_sandbox(request.param)


@pytest.fixture
async def executor(sandbox: Sandbox) -> AsyncIterator[HelperExecutor]:
    """An Executor of the sandbox pod."""
    made = sandbox.executor()
    yield made
    await made.aclose()
