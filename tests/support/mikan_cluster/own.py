"""A cluster of plain processes of a test's own, beside the one under test: it may be broken in any way."""

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mikan_cluster.commands import Helm, Kubectl, eventually
from mikan_cluster.processes import Process, processes
from mikan_dev.paths import CLUSTER_SCRIPTS, cache_dir

_GET = """
import sys, urllib.error, urllib.request
try:
    answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=10)
except urllib.error.HTTPError as error:
    answer = error
except OSError:
    sys.exit()
print(answer.status, answer.read().decode(), end="")
"""


@dataclass(frozen=True)
class OwnCluster:
    """A cluster of its own state, port and cgroup."""

    state: Path
    port: int

    def run(self, script: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one of the cluster's scripts for it."""
        environment = {
            **{name: value for name, value in os.environ.items() if name != "MIKAN_CLUSTER_CGROUP"},
            "MIKAN_CLUSTER_STATE": str(self.state),
            "MIKAN_CLUSTER_API_PORT": str(self.port),
        }
        command = [str(CLUSTER_SCRIPTS / script), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    @property
    def kubeconfig(self) -> Path:
        """Its administrator's."""
        return self.state / "admin.kubeconfig"

    @property
    def kubectl(self) -> Kubectl:
        """kubectl against it."""
        return Kubectl(cache_dir() / "bin" / "kubectl", self.kubeconfig)

    @property
    def helm(self) -> Helm:
        """helm against it."""
        return Helm(cache_dir() / "bin" / "helm", self.kubeconfig)

    def cgroups(self) -> list[str]:
        """Its cgroups that exist."""
        listed = (
            f'. {CLUSTER_SCRIPTS}/lib.sh; cgroups | while read -r group; do [ ! -d "$group" ] || echo "$group"; done'
        )
        environment = {**os.environ, "MIKAN_CLUSTER_STATE": str(self.state)}
        return subprocess.run(
            ["bash", "-c", listed], check=True, capture_output=True, text=True, env=environment
        ).stdout.split()

    def answers(self) -> bool:
        """Whether something listens on its port."""
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def leaves_nothing(self) -> bool:
        """Whether its state, cgroups, processes and port are gone."""
        named = [process for process in processes() if str(self.state) in process.command]
        return not self.state.exists() and self.cgroups() == [] and not self.answers() and named == []

    def get(self, process: Process, path: str, port: int = 8080) -> tuple[int, str]:
        """Ask a process of a pod by HTTP, from inside its network: status (0 = no answer) and body."""
        argv = ["nsenter", f"--net={process.network}", sys.executable, "-c", _GET, f"http://127.0.0.1:{port}{path}"]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=30)
        status, _, body = done.stdout.partition(" ")
        return int(status or 0), body

    def pod_processes(self, command: str, where: str = "/") -> list[Process]:
        """Processes of its pods with this command line, whose cgroup's path has ``where`` in it."""
        group = f"/{(self.state / 'cgroup').read_text().strip()}/"
        found = [process for process in processes() if process.command == command]
        return [process for process in found if group in process.cgroup and where in process.cgroup]

    def pod_process(self, command: str, where: str = "/", seconds: float = 60, **environment: str) -> Process:
        """The only such process with these variables in its environment, once there is one."""

        def found() -> Process:
            candidates = self.pod_processes(command, where)
            matching = [one for one in candidates if environment.items() <= one.environment.items()]
            assert len(matching) == 1, matching
            return matching[0]

        return eventually(f"one process {command!r} with {environment}", found, seconds=seconds)
