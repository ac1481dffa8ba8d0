"""Programs of ``in_pod/`` inside the pods of a release, so that no port-forward is in the figures."""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mikan_api import names
from mikan_api.identity import OfficeKey
from mikan_cluster.commands import CommandFailed
from mikan_cluster.release import Release

PROGRAMS = Path(__file__).resolve().parent.parent / "in_pod"
PATIENCE = 600.0
"""Seconds for one program."""


def in_pod(release: Release, namespace: str, pod: str, program: str, job: object = None) -> Any:
    """Run a program in a pod's Python; what it printed, parsed.

    Raises:
        CommandFailed: it failed.
    """
    source = (PROGRAMS / f"{program}.py").read_text()
    done = release.kubectl.exec(namespace, pod, "python", "-c", source, json.dumps(job), timeout=PATIENCE)
    if done.returncode != 0:
        raise CommandFailed(f"{program} in {pod}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def in_process(release: Release, component: str, program: str, job: object = None) -> Any:
    """The same in one of the release's own processes."""
    return in_pod(release, release.namespace, f"deploy/{release.name}-{component}", program, job)


def in_agent(release: Release, key: OfficeKey, program: str, job: object = None) -> Any:
    """The same in an office's agent."""
    return in_pod(release, release.offices, names.agent_pod(key), program, job)


def chats(release: Release, conversations: Sequence[str], text: str, expect: str, rounds: int = 1) -> Any:
    """Messages through the console (``in_pod/chats.py``)."""
    job = {"conversations": list(conversations), "text": text, "expect": expect, "rounds": rounds}
    return in_process(release, "gateway", "chats", job)


def kubectl_seconds(release: Release, *arguments: str, stdin: bytes | None = None) -> float:
    """Seconds of one kubectl command, its output thrown away.

    Raises:
        CalledProcessError: it failed.
    """
    argv = [str(release.kubectl.program), f"--kubeconfig={release.kubectl.kubeconfig}", *arguments]
    began = time.perf_counter()
    subprocess.run(argv, input=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, timeout=PATIENCE)
    return time.perf_counter() - began
