"""An operator process with namespaces and volumes of its own on a real cluster, and a plain way to look at objects."""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from free_port import free_port
from mikan_api import names
from mikan_api.identity import OfficeAddress, Platform
from mikan_dev.paths import cache_dir, kubeconfig
from mikan_operator.exceptions import NotFound
from mikan_operator.storage.kinds import OFFICE, POD, VAULT, Kind, Manifest
from mikan_operator.storage.kubernetes import KubernetesApi

NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
PATIENCE = 100.0
"""Seconds. Much longer than anything takes: other tests may be using the node too."""
AGENT_IMAGE = "localhost/pause:1"
SANDBOX_IMAGE = "localhost/python:3.11"
MODEST = {"resources": {"cpuRequest": "1m", "memoryRequest": "8Mi"}}
"""Small enough to find a place on a node that other tests use too."""


def address(conversation: str) -> OfficeAddress:
    """A console conversation."""
    return OfficeAddress(Platform.CONSOLE, conversation)


def office(conversation: str, **spec: Any) -> Manifest:
    """An Office as the gateway makes it."""
    who = address(conversation)
    base = {"platform": "console", "conversationId": conversation, "trustModel": "membership"}
    return {
        "apiVersion": OFFICE.api_version,
        "kind": OFFICE.kind,
        "metadata": {"name": who.key},
        "spec": base | spec,
    }


def vault(name: str, scope: str = "office", **spec: Any) -> Manifest:
    """A Vault."""
    metadata = {"name": name}
    return {"apiVersion": VAULT.api_version, "kind": VAULT.kind, "metadata": metadata, "spec": {"scope": scope} | spec}


def secret(name: str, data: dict[str, str], *, labelled: bool = True) -> Manifest:
    """A Secret for a Vault."""
    labels = {names.LABEL_VAULT: "true"} if labelled else {}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def conditions(manifest: Manifest) -> dict[str, tuple[str, str]]:
    """Condition type -> (status, reason)."""
    found = manifest.get("status", {}).get("conditions", [])
    return {c["type"]: (c["status"], c["reason"]) for c in found}


@dataclass
class Live:
    """Namespaces of a test run, and an operator in them when one was started."""

    api: Any
    root: KubernetesApi
    release: KubernetesApi
    offices: KubernetesApi
    offices_namespace: str
    release_namespace: str
    directory: Path
    helper_image: str
    process: asyncio.subprocess.Process | None = None
    port: int = 0
    made: list[tuple[Kind, str]] = field(default_factory=list)

    async def make(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Create an object in the offices namespace."""
        return await self.offices.create(kind, manifest)

    async def until(self, what: Callable[[], Any], patience: float = PATIENCE) -> Any:
        """Ask again until the answer is true, and return it."""
        deadline = time.monotonic() + patience
        last: Any = None
        while time.monotonic() < deadline:
            try:
                last = await what()
                if last:
                    return last
            except NotFound as error:
                last = error
            await asyncio.sleep(0.1)
        raise AssertionError(f"waited {patience} s in vain; last: {last!r}")

    async def office_with(self, key: str, kind: str, state: tuple[str, str], patience: float = PATIENCE) -> Manifest:
        """Wait for a condition of an Office."""

        seen: dict[str, Any] = {}

        async def look() -> Manifest | None:
            found = await self.offices.get(OFFICE, key)
            seen.update(found.get("status", {}))
            return found if conditions(found).get(kind) == state else None

        try:
            found: Manifest = await self.until(look, patience)
        except AssertionError as error:
            raise AssertionError(f"{error}; conditions: {json.dumps(seen.get('conditions'), indent=1)}") from None
        return found

    async def gone(self, kind: Kind, name: str, patience: float = PATIENCE) -> None:
        """Wait until an object is gone."""

        async def look() -> bool:
            try:
                await self.offices.get(kind, name)
            except NotFound:
                return True
            return False

        await self.until(look, patience)

    async def pod_ready(self, name: str) -> Manifest:
        """Wait until a pod is ready."""

        async def look() -> Manifest | None:
            pod = await self.offices.get(POD, name)
            states = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions", [])}
            return pod if states.get("Ready") == "True" else None

        found: Manifest = await self.until(look)
        return found

    async def activity(self, key: str, at: datetime | None = None, running: int = 0) -> None:
        """Report activity as the gateway does."""
        when = (at or datetime.now(UTC)).isoformat(timespec="seconds").replace("+00:00", "Z")
        path = OFFICE.path(self.offices_namespace, key, "status")
        body = {
            "apiVersion": OFFICE.api_version,
            "kind": OFFICE.kind,
            "metadata": {"name": key},
            "status": {"lastActivityTime": when, "runningSessions": running},
        }
        query = {"fieldManager": names.GATEWAY, "force": "true"}
        await self.offices._request("PATCH", path, query, body, "application/apply-patch+yaml")

    async def patch(self, kind: Kind, name: str, body: Manifest) -> Manifest:
        """Merge into an object, as `kubectl edit` does."""
        path = kind.path(self.offices_namespace, name)
        return await self.offices._request("PATCH", path, None, body, "application/merge-patch+json")

    async def remove(self, kind: Kind, name: str) -> None:
        """Delete an object as it is."""
        await self.offices._request("DELETE", kind.path(self.offices_namespace, name))

    async def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, message) of the Events about an object."""
        kind = Kind("events.k8s.io", "v1", "Event", "events")
        found = await self.offices.list_all(kind)
        return [(e["reason"], e.get("note", "")) for e in found if e.get("regarding", {}).get("name") == name]

    async def http(self, path: str) -> tuple[int, str]:
        """Ask the operator's own server."""
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            return answer.status, await answer.text()

    def write_settings(self, **settings: Any) -> None:
        """Write the global settings."""
        file = self.directory / "settings" / "settings.json"
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps({"sandbox": MODEST} | settings))
        fresh.replace(file)

    def environment(self, kubeconfig: Path) -> dict[str, str]:
        """What an operator process of these namespaces is told."""
        self.port = free_port()
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory),
            "KUBECONFIG": str(kubeconfig),
            "MIKAN_NAMESPACE": self.release_namespace,
            "MIKAN_OFFICES_NAMESPACE": self.offices_namespace,
            "MIKAN_SETTINGS_DIR": str(self.directory / "settings"),
            "MIKAN_KEYS_DIR": str(self.directory / "keys"),
            "MIKAN_OPERATOR_CONFIG": str(self.directory / "operator.json"),
            "MIKAN_LISTEN": f"127.0.0.1:{self.port}",
            "MIKAN_POD_NAME": "operator-under-test",
        }

    async def start(self, kubeconfig: Path, **variables: str) -> None:
        """Start the operator process, with more environment variables, and wait until it has listed."""
        environment = self.environment(kubeconfig) | variables
        with (self.directory / "operator.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mikan_operator", env=environment, stderr=log, stdout=log
            )
        await self.until(self._is_ready)

    async def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.returncode is None, self.log()
        try:
            status, text = await self.http("/readyz")
        except aiohttp.ClientError:
            return False
        return status == 200 and '"leader"' in text

    async def stop(self) -> int:
        """Stop the operator process as the kubelet would; returns its exit code."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(self.process.wait(), 15)
        code = self.process.returncode
        self.process = None
        assert code is not None
        return code

    def log(self) -> str:
        """What the operator has said so far."""
        file = self.directory / "operator.log"
        return file.read_text() if file.exists() else ""


class InPod:
    """Runs commands in pods."""

    def __init__(self, world: Live) -> None:
        self._base = [str(cache_dir() / "bin" / "kubectl"), "--kubeconfig", str(kubeconfig())]
        self._namespace = world.offices_namespace

    def __call__(self, pod: str, container: str, *command: str) -> str:
        """Standard output of a command."""
        line = [*self._base, "exec", "-n", self._namespace, pod, "-c", container, "--", *command]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout


def write_inputs(directory: Path, helper_image: str, **settings: Any) -> None:
    """Everything that is mounted into the operator's pod."""
    for name in ("settings", "keys"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "settings" / "settings.json").write_text(json.dumps({"sandbox": MODEST} | settings))
    for name in ("gateway", "models"):
        (directory / "keys" / name).write_bytes(secrets.token_bytes(32))
    document = {
        "images": {
            "agent": AGENT_IMAGE,
            "sandbox": SANDBOX_IMAGE,
            "sandboxHelper": helper_image,
            "pullPolicy": "Never",
        },
        "gatewayUrl": "http://mikan-gateway.release.svc:8080",
        "modelsUrl": "http://mikan-models.release.svc:8080",
        "claims": {"offices": "offices", "shared": "shared", "packages": "packages"},
        "sandbox": {"nameservers": ["1.1.1.1"]},
    }
    (directory / "operator.json").write_text(json.dumps(document))


@asynccontextmanager
async def live(api: Any, directory: Path, volumes: Path, helper_image: str, prefix: str) -> AsyncIterator[Live]:
    """Namespaces and volumes of a name of their own; all of it is gone at the end."""
    claims: dict[str, str] = {}
    try:
        async with namespaces(api, directory, helper_image, prefix) as world:
            for claim in ("offices", "shared"):
                name = claims[claim] = f"{world.release_namespace}-{claim}"
                await _volume(world, volumes, name, claim)
            try:
                yield world
            finally:
                if world.process is not None:
                    await world.stop()
    finally:
        for name in claims.values():
            await KubernetesApi(api, "default")._request("DELETE", VOLUME.path("", name))


@asynccontextmanager
async def namespaces(api: Any, directory: Path, helper_image: str, prefix: str) -> AsyncIterator[Live]:
    """Namespaces of a name of their own; they go at the end."""
    name = f"{prefix}-{secrets.token_hex(3)}"
    root = KubernetesApi(api, "default")
    release, offices = KubernetesApi(api, name), KubernetesApi(api, f"{name}-offices")
    world = Live(api, root, release, offices, f"{name}-offices", name, directory, helper_image)
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    await root.create(NAMESPACE, {"metadata": {"name": name}})
    await root.create(NAMESPACE, {"metadata": {"name": world.offices_namespace, "labels": restricted}})
    try:
        yield world
    finally:
        for namespace in (world.offices_namespace, name):
            with suppress(NotFound):
                await root._request("DELETE", NAMESPACE.path("", namespace))


async def _volume(world: Live, volumes: Path, name: str, claim: str) -> None:
    path = volumes / name
    path.mkdir(parents=True)
    path.chmod(0o777)
    capacity = {"storage": "1Gi"}
    modes = ["ReadWriteMany"]
    node = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    spec = {
        "capacity": capacity,
        "accessModes": modes,
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": name,
        "local": {"path": str(path)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [node]}]}},
    }
    await world.root.create(VOLUME, {"metadata": {"name": name}, "spec": spec})
    request = {"accessModes": modes, "storageClassName": name, "resources": {"requests": capacity}}
    await world.offices.create(CLAIM, {"metadata": {"name": claim}, "spec": request})
