"""A release on a cluster of our own, as who breaks it sees it: processes to kill, daemons to stop, words on health."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from mikan_api import names
from mikan_api.identity import OfficeKey
from mikan_cluster.commands import eventually
from mikan_cluster.own import OwnCluster
from mikan_cluster.processes import Process
from mikan_cluster.release import Release

Component = Literal["gateway", "operator", "models"]

COMMANDS: dict[Component, str] = {
    "gateway": "python -m mikan_gateway",
    "operator": "python -m mikan_operator",
    "models": "python -m mikan_gateway.models",
}
RESTARTED = ("kube-controller-manager", "kube-scheduler", "netpol", "kube-proxy", "kubelet")
"""Daemons that ask an API server which was away for long again only after up to a minute (client-go's back-off)."""


@dataclass(frozen=True)
class Installation:
    """The release, and the cluster below it."""

    cluster: OwnCluster
    release: Release

    def process(self, component: Component) -> Process:
        """A component's process, once there is one."""
        return self.cluster.pod_process(COMMANDS[component])

    def readyz(self, component: Component) -> tuple[int, dict[str, Any]]:
        """What a component says of itself; status 0 where nothing answers."""
        status, body = self.cluster.get(self.process(component), "/readyz")
        return status, json.loads(body) if body else {}

    def fault(self, component: Component, part: str) -> str:
        """What a component says is wrong with one of its parts; empty if nothing is."""
        found = self.readyz(component)[1]
        state = found.get("parts", found).get(part, "")
        if isinstance(state, dict):
            return str(state["reason"])
        return "" if state in {"ok", True} else str(state)

    def metric(self, component: Component, name: str) -> float:
        """The value of a metric, named as in ``/metrics``, labels included."""
        _, body = self.cluster.get(self.process(component), "/metrics")
        (line,) = (line for line in body.splitlines() if line.startswith(f"{name} "))
        return float(line.rsplit(" ", 1)[1])

    def await_ready(self, seconds: float = 90) -> None:
        """Wait until every component is ready."""
        eventually("every component ready", lambda: {self.readyz(c)[0] for c in COMMANDS} == {200}, seconds=seconds)

    def restarts(self) -> dict[str, int]:
        """How often each container of the release has been started anew."""
        return {
            pod["metadata"]["name"]: sum(status["restartCount"] for status in pod["status"]["containerStatuses"])
            for pod in self.release.kubectl.get("pods", "-n", self.release.namespace)
        }

    def pod(self, name: str) -> dict[str, Any]:
        """A pod of an office."""
        found: dict[str, Any] = self.release.kubectl.get("pod", name, "-n", self.release.offices)
        return found

    def agent(self, key: OfficeKey) -> Process:
        """The process of an office's agent."""
        return self.cluster.pod_process("python -m mikan_agent", MIKAN_POD_NAME=names.agent_pod(key))

    def helper(self, key: OfficeKey) -> Process:
        """The first process of an office's sandbox."""
        uid = self.pod(names.sandbox_pod(key))["metadata"]["uid"]
        return self.cluster.pod_process(f"{names.HELPER} serve", f"/pod{uid}/")

    def delete_now(self, *pods: str) -> None:
        """Have pods of offices go at once, as when their node is gone."""
        self.release.kubectl(
            "delete", "pod", *pods, "-n", self.release.offices, "--force", "--grace-period=0", "--wait=false"
        )

    def events(self, key: OfficeKey) -> list[tuple[str, str]]:
        """Reason and text of the Events about an Office."""
        found = self.release.kubectl.get("events", "-n", self.release.offices)
        return [(e["reason"], e["message"]) for e in found if e["involvedObject"]["name"] == key]

    def daemon(self, verb: Literal["stop", "kill", "start", "restart"], *daemons: str) -> None:
        """Have the cluster's own daemons come or go."""
        for name in daemons:
            self.cluster.run("ctl.sh", verb, name)

    def start_api_server(self) -> None:
        """Start it and wait until it serves, then what would wait long to ask it again."""
        self.daemon("start", "kube-apiserver")
        self.await_api_server()
        self.daemon("restart", *RESTARTED)

    def await_api_server(self) -> None:
        """Wait until it serves."""
        eventually("the API server", lambda: self.release.kubectl("get", "--raw", "/readyz") == "ok", seconds=120)
