"""An installed release of the chart, with the views that tests need of it."""

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from free_port import free_port
from mikan_api import names
from mikan_api.identity import OfficeAddress, OfficeKey, Platform, office_key
from mikan_cluster.commands import Helm, Kubectl, eventually, run
from mikan_dev.paths import CLUSTER_SCRIPTS

REPOSITORY = Path(__file__).resolve().parents[3]
CHART = REPOSITORY / "charts" / "mikan"
VALUES = REPOSITORY / "tests" / "cluster" / "values.yaml"
"""Values for the clusters that the project makes itself."""


@dataclass(frozen=True)
class Release:
    """A release ``name`` in ``namespace``; its offices live in ``offices``."""

    kubectl: Kubectl
    helm: Helm
    name: str
    namespace: str
    values: Sequence[str] = field(default_factory=tuple)

    @property
    def offices(self) -> str:
        """The offices namespace."""
        return f"{self.name}-offices"

    def install(self, *arguments: str, chart: Path = CHART) -> None:
        """Install or upgrade, and wait until every process is ready."""
        self.helm(
            "upgrade", "--install", self.name, str(chart), "--namespace", self.namespace, "--create-namespace",
            "--values", str(VALUES), *self.values, *arguments, "--wait", "--timeout", "180s",
        )  # fmt: skip

    def uninstall(self) -> None:
        """Uninstall the chart; what it keeps stays."""
        self.helm("uninstall", self.name, "--namespace", self.namespace, "--wait", "--timeout", "120s")

    def remove(self) -> None:
        """Uninstall, delete both namespaces with all that is in them, and make the volumes free again."""
        self.helm("uninstall", self.name, "--namespace", self.namespace, "--ignore-not-found", "--wait")
        self.kubectl("delete", "namespace", self.offices, self.namespace, "--ignore-not-found", "--timeout=120s")
        run([str(CLUSTER_SCRIPTS / "volumes.sh"), "reclaim"])

    def office_key(self, conversation: str) -> OfficeKey:
        """Key of a console conversation's office."""
        return office_key(OfficeAddress(Platform.CONSOLE, conversation))

    def office(self, key: OfficeKey) -> dict[str, Any]:
        """The Office object."""
        found: dict[str, Any] = self.kubectl.get("office", key, "-n", self.offices)
        return found

    def condition(self, key: OfficeKey, kind: str = "Ready") -> dict[str, Any]:
        """One condition of an Office."""
        for condition in self.office(key).get("status", {}).get("conditions", []):
            if condition["type"] == kind:
                found: dict[str, Any] = condition
                return found
        raise LookupError(f"{key} has no condition {kind} yet")

    def await_condition(
        self, key: OfficeKey, status: str, reason: str, kind: str = "Ready", seconds: float = 60
    ) -> None:
        """Wait for a condition of an Office to have a status and a reason."""

        def probe() -> bool:
            condition = self.condition(key, kind)
            assert (condition["status"], condition["reason"]) == (status, reason), condition
            return True

        eventually(f"{kind}={status} ({reason}) of {key}", probe, seconds=seconds)

    def pods(self, key: OfficeKey) -> list[str]:
        """Names of an office's pods."""
        return self.kubectl.names("pods", "-n", self.offices, "-l", f"{names.LABEL_OFFICE}={key}")

    def in_agent(self, key: OfficeKey, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in an office's agent pod."""
        return self.kubectl.exec(self.offices, names.agent_pod(key), *command, container=names.AGENT_CONTAINER)

    def in_sandbox(self, key: OfficeKey, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in an office's sandbox pod, beside the helper."""
        return self.kubectl.exec(self.offices, names.sandbox_pod(key), *command, container=names.SANDBOX_CONTAINER)

    def vault(self, key: OfficeKey, data: dict[str, str], **spec: object) -> None:
        """Give an office a Vault and its Secret."""
        self.kubectl.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": key, "labels": {names.LABEL_VAULT: "true"}},
                "stringData": data,
            },
            {
                "apiVersion": names.API_VERSION,
                "kind": "Vault",
                "metadata": {"name": key},
                "spec": {"scope": "office", **spec},
            },
            namespace=self.offices,
        )

    def use_model(self, key: OfficeKey, model: str) -> None:
        """Have an office ask another model, as an admin would."""
        patch = json.dumps({"spec": {"llm": {"model": model}}})
        self.kubectl("patch", "office", key, "-n", self.offices, "--type=merge", "-p", patch)
        # The gateway reads it from its own watch.
        time.sleep(1)

    def logs(self, component: str) -> str:
        """Log of one of the release's processes."""
        return self.kubectl("logs", "-n", self.namespace, f"deployment/{self.name}-{component}", "--tail=-1")


@dataclass(frozen=True)
class Resting:
    """A release that nobody touches, and since when (seconds of the epoch)."""

    release: Release
    since: float


@dataclass
class Chat:
    """A conversation in the terminal chat, by the real ``mikan`` command."""

    release: Release
    conversation: str = field(default_factory=lambda: f"t{secrets.token_hex(4)}")

    @property
    def key(self) -> OfficeKey:
        """Key of the conversation's office."""
        return self.release.office_key(self.conversation)

    def argv(self, text: str, timeout: float) -> list[str]:
        """The command line that sends one message."""
        program = Path(sys.executable).with_name("mikan")
        return [
            str(program), "chat", "--namespace", self.release.namespace, "--release", self.release.name,
            "--conversation", self.conversation, "--message", text, "--timeout", str(int(timeout)),
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        """Environment of the command: this cluster's kubectl and kubeconfig."""
        kubectl = self.release.kubectl
        return {
            **os.environ,
            "KUBECONFIG": str(kubectl.kubeconfig),
            "PATH": f"{kubectl.program.parent}:{os.environ['PATH']}",
        }

    def say(self, text: str, timeout: float = 90) -> str:
        """Send a message and return what the terminal showed."""
        done = subprocess.run(
            self.argv(text, timeout),
            capture_output=True,
            text=True,
            timeout=timeout + 30,
            env=self.environment(),
            check=False,
        )
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@contextlib.contextmanager
def port_forward(kubectl: Kubectl, namespace: str, target: str, port: int) -> Iterator[int]:
    """Forward a random local port to a pod's; yields the local one."""
    local = free_port()
    argv = [
        str(kubectl.program),
        f"--kubeconfig={kubectl.kubeconfig}",
        "port-forward",
        "-n",
        namespace,
        target,
        f"{local}:{port}",
    ]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.search(r"Forwarding from", line), line
        yield local
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)


def audited_writes(audit_log: Path, since: float) -> list[dict[str, Any]]:
    """Write requests in the API server's audit log at or after ``since`` (seconds of the epoch), Leases aside.

    Each entry has its own time in the same form as ``since_epoch``.
    """
    found = []
    for line in audit_log.read_text().splitlines():
        entry = json.loads(line)
        entry["since_epoch"] = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
        if entry["since_epoch"] >= since and entry.get("objectRef", {}).get("resource") != "leases":
            found.append(entry)
    return found
