"""kubectl and helm as subprocesses, the way an admin uses them."""

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class CommandFailed(Exception):
    """A command ended with an error; the message has what it printed."""


def run(argv: Sequence[str], *, stdin: str | None = None, timeout: float = 120, check: bool = True) -> str:
    """Run a command and return what it wrote to standard output.

    Raises:
        CommandFailed: it failed and ``check`` is set.
    """
    done = subprocess.run(list(argv), input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    if check and done.returncode != 0:
        raise CommandFailed(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def eventually(what: str, probe: Callable[[], T], *, seconds: float = 60, every: float = 0.2) -> T:
    """Poll ``probe`` until it returns something true; its errors count as "not yet".

    Raises:
        AssertionError: it did not within ``seconds``; the message has its last result.
    """
    end = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < end:
        try:
            last = probe()
            if last:
                return last
        except (CommandFailed, subprocess.TimeoutExpired, LookupError, AssertionError) as error:
            last = error
        time.sleep(every)
    raise AssertionError(f"{what}: not within {seconds} s; last: {last!r}")


@dataclass(frozen=True)
class Kubectl:
    """kubectl against one cluster."""

    program: Path
    kubeconfig: Path

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = 120, check: bool = True) -> str:
        argv = [str(self.program), f"--kubeconfig={self.kubeconfig}", *arguments]
        return run(argv, stdin=stdin, timeout=timeout, check=check)

    def get(self, *arguments: str) -> Any:
        """An object, or a list's items, as parsed JSON."""
        found = json.loads(self("get", *arguments, "-o", "json"))
        return found["items"] if str(found.get("kind", "")).endswith("List") else found

    def names(self, *arguments: str) -> list[str]:
        """Names of what a query finds."""
        return [item["metadata"]["name"] for item in self.get(*arguments)]

    def apply(self, *objects: dict[str, Any], namespace: str | None = None) -> None:
        """Apply manifests."""
        where = ["-n", namespace] if namespace else []
        self("apply", *where, "-f", "-", stdin="\n---\n".join(json.dumps(o) for o in objects))

    def exec(
        self, namespace: str, pod: str, *command: str, container: str | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside a pod; a failing one is a result, not an error."""
        which = ["-c", container] if container else []
        argv = [
            str(self.program),
            f"--kubeconfig={self.kubeconfig}",
            "exec",
            "-n",
            namespace,
            pod,
            *which,
            "--",
            *command,
        ]
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)


@dataclass(frozen=True)
class Helm:
    """helm against one cluster."""

    program: Path
    kubeconfig: Path

    def __call__(self, *arguments: str, timeout: float = 240, check: bool = True) -> str:
        return run([str(self.program), *arguments, f"--kubeconfig={self.kubeconfig}"], timeout=timeout, check=check)
