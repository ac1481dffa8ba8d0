"""What figures cannot be better than: the same work without us, on the same node and in the same images."""

import time
from dataclasses import dataclass
from typing import Any

from kubernetes import client, config, watch

from mikan_api.identity import OfficeKey
from mikan_bench.figures import p50
from mikan_bench.pods import in_agent
from mikan_cluster.release import Release

SERVER = """\
import http.server, socketserver, time
server = socketserver.TCPServer(("", 8000), http.server.SimpleHTTPRequestHandler)
print(time.time(), flush=True)
server.serve_forever()
"""


@dataclass(frozen=True)
class AgentFloors:
    """Seen from inside an agent's pod; medians, in milliseconds and MB."""

    model: float
    """The models process asked directly for a short answer."""
    model_with_tool: float
    """The same for one tool call and the answer after it."""
    websocket: float
    """One round trip."""
    imports: float
    """A Python that imports an HTTP client, pydantic and a WebSocket client, and ends."""
    imports_mb: float


def measure_agent_floors(release: Release, key: OfficeKey, count: int, text: str, command: str) -> AgentFloors:
    """Measure in a running office's agent."""
    found = in_agent(release, key, "agent_floors", {"count": count, "text": text, "command": command})
    return AgentFloors(
        p50(found["text"]), p50(found["bash"]), p50(found["websocket"]), p50(found["imports"]), found["imports_mb"]
    )


def measure_bare_pod(release: Release, name: str) -> tuple[float, float]:
    """Seconds from the creation of a pod with a Python server to Ready, and to the server listening.

    The server's own clock tells the second, so a node's clock must agree with ours.
    """
    config.load_kube_config(str(release.kubectl.kubeconfig))
    api, namespace = client.CoreV1Api(), release.offices
    manifest = bare_pod(release, name, ["python", "-c", SERVER])
    wall, began = time.time(), time.perf_counter()
    api.create_namespaced_pod(namespace, manifest)
    try:
        ready = _seconds_to_ready(api, namespace, name, began)
        line = ""
        while not line:
            line = api.read_namespaced_pod_log(name, namespace).partition("\n")[0]
        return ready, float(line) - wall
    finally:
        api.delete_namespaced_pod(name, namespace, grace_period_seconds=0)


def _seconds_to_ready(api: Any, namespace: str, name: str, began: float) -> float:
    stream = watch.Watch().stream(
        api.list_namespaced_pod, namespace, field_selector=f"metadata.name={name}", timeout_seconds=120
    )
    for event in stream:
        conditions = event["object"].status.conditions or []
        if any(condition.type == "Ready" and condition.status == "True" for condition in conditions):
            return time.perf_counter() - began
    raise TimeoutError(f"pod {name} did not become ready")


def bare_pod(release: Release, name: str, command: list[str], labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod of the gateway's image that has nothing of ours but a command."""
    gateway = release.kubectl.get("deploy", f"{release.name}-gateway", "-n", release.namespace)
    image = gateway["spec"]["template"]["spec"]["containers"][0]
    container = {
        "name": "main",
        "image": image["image"],
        "imagePullPolicy": image.get("imagePullPolicy"),
        "command": command,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"automountServiceAccountToken": False, "securityContext": security, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": pod}
