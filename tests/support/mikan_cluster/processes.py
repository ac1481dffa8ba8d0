"""Processes of this machine, those inside a node of ours included, as /proc tells of them."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process as it was when we looked."""

    pid: int
    command: str
    """Its command line, with spaces between."""
    cgroup: str

    @property
    def network(self) -> Path:
        """Its network namespace: its pod's, where it is in one."""
        return Path(f"/proc/{self.pid}/ns/net")

    @property
    def environment(self) -> dict[str, str]:
        """What it was started with; empty if it is gone."""
        try:
            text = Path(f"/proc/{self.pid}/environ").read_bytes().decode(errors="replace")
        except OSError:
            return {}
        return dict(item.split("=", 1) for item in text.split("\0") if "=" in item)

    def kill(self) -> None:
        """End it as a crash would."""
        os.kill(self.pid, signal.SIGKILL)


def processes() -> list[Process]:
    """All of them, by PID."""
    found = []
    for entry in sorted((entry for entry in Path("/proc").glob("[0-9]*")), key=lambda entry: int(entry.name)):
        try:
            command = (entry / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
            found.append(Process(int(entry.name), command, (entry / "cgroup").read_text()))
        except OSError:
            continue  # it ended while we looked
    return found
