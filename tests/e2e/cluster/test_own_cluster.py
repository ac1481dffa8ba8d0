"""A second cluster of plain processes beside the one under test: real, apart, and gone without a trace."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from free_port import free_port
from mikan_cluster.own import OwnCluster

pytestmark = pytest.mark.timeout(300)

PODS = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {{runAsNonRoot: true, runAsUser: 10001, seccompProfile: {{type: RuntimeDefault}}}}
  containers:
  - name: main
    image: {image}
    imagePullPolicy: Never
    command: [sleep, "600"]
    securityContext: {{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {{drop: [ALL]}}}}
"""

LOOK_AT_PYTHON = """
import asyncio, ctypes, importlib.util, json, os, sqlite3, ssl, sys, zoneinfo
import httpx, mikan_agent, mikan_api, pydantic, websockets
print(json.dumps({
    "version": sys.version_info[:2],
    "safe path": sys.flags.safe_path,
    "uncompiled": sorted(name for name, module in sys.modules.items()
        if getattr(module, "__cached__", None) and not os.path.exists(module.__cached__)),
    "places": sorted({os.path.dirname(module.__path__[0]) for module in (httpx, mikan_agent, mikan_api)}),
    "forbidden": [name for name in ("litellm", "kopf", "kubernetes") if importlib.util.find_spec(name)],
    "certificates": ssl.create_default_context().cert_store_stats()["x509_ca"] > 100,
    "time zones": str(zoneinfo.ZoneInfo("Europe/Berlin")),
    "user": [os.getuid(), os.getgid(), os.getcwd()],
}))
"""


@pytest.fixture
def second(tmp_path: Path) -> Iterator[OwnCluster]:
    """Not started; taken down in any case."""
    cluster = OwnCluster(tmp_path / "state", free_port())
    yield cluster
    cluster.run("down.sh")


def test_it_is_real_kubernetes_with_enforced_policies_an_outside_and_volumes(second: OwnCluster) -> None:
    second.run("up.sh")
    printed = second.run("smoke.sh", check=False).stdout
    assert re.findall(r"^FAIL .*", printed, re.MULTILINE) == []
    assert re.search(r"^4[5-9] passed, 0 failed$", printed, re.MULTILINE), printed


def test_a_node_that_died_is_started_again_and_down_leaves_nothing(second: OwnCluster) -> None:
    second.run("up.sh")
    assert second.cgroups() != []
    os.kill(int((second.state / "unshare.pid").read_text()), signal.SIGKILL)
    second.run("up.sh")
    assert second.kubectl("get", "--raw", "/readyz") == "ok"
    second.run("down.sh")
    assert second.leaves_nothing()


def test_up_on_a_taken_port_says_so_and_leaves_nothing(second: OwnCluster) -> None:
    with socket.create_server(("127.0.0.1", second.port)):
        done = second.run("up.sh", check=False)
    assert done.returncode == 1
    assert f"port {second.port} is taken: another cluster? set MIKAN_CLUSTER_API_PORT" in done.stderr
    assert second.leaves_nothing()


def test_the_control_plane_alone_serves_the_api_without_pods(second: OwnCluster) -> None:
    second.run("up.sh", "--control-plane")
    assert second.kubectl("get", "nodes", "-o", "name") == ""
    second.kubectl("create", "configmap", "one")
    assert second.kubectl("get", "configmap", "one", "-o", "name") == "configmap/one\n"


def test_images_hold_what_their_process_needs_and_work_read_only(second: OwnCluster) -> None:
    second.run("up.sh")
    second.run("image.sh", "agent", "sandbox")
    images = {
        "agent": "localhost/mikan-agent:dev",
        "sandbox": "localhost/mikan-sandbox:dev",
        "bb": "localhost/busybox:1",
    }
    second.kubectl("apply", "-f", "-", stdin="---".join(PODS.format(name=n, image=i) for n, i in images.items()))
    second.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
    assert json.loads(second.kubectl("exec", "agent", "--", "python", "-c", LOOK_AT_PYTHON)) == {
        "version": [3, 11],
        "safe path": True,
        "uncompiled": [],
        "places": ["/opt/mikan/lib/python3.11/site-packages"],
        "forbidden": [],
        "certificates": True,
        "time zones": "Europe/Berlin",
        "user": [10001, 10001, "/home/mikan"],
    }
    look = (
        'id -un; for tool in bash git curl python3; do command -v "$tool"; done; curl --version >/dev/null && echo runs'
    )
    assert second.kubectl("exec", "sandbox", "--", "bash", "-c", look).split() == [
        "mikan",
        "/usr/bin/bash",
        "/usr/bin/git",
        "/usr/bin/curl",
        "/usr/bin/python3",
        "runs",
    ]
    assert second.kubectl("exec", "bb", "--", "/bin/sh", "-c", "id -u; cat /etc/passwd; ls /usr 2>&1 | head -1") == (
        "10001\nroot:x:0:0:root:/root:/bin/sh\nls: /usr: No such file or directory\n"
    )
