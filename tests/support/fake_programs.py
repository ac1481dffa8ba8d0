"""Fake programs for tests of scripts: each notes how it was called, and answers as the test says."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from mikan_dev.paths import CLUSTER_SCRIPTS


@dataclass
class FakePrograms:
    """A directory of fake programs, first on PATH, and a cache and state apart from the machine's."""

    root: Path
    environment: dict[str, str]

    def add(self, name: str, script: str) -> Path:
        """Add a fake: it notes its arguments, then runs a shell script."""
        program = self.root / "bin" / name
        program.write_text(f'#!/bin/bash\necho "{name} $*" >>"{self.root}/calls"\n{script}\n')
        program.chmod(0o755)
        return program

    def calls(self) -> list[str]:
        """Every call so far, in order."""
        file = self.root / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def run(self, script: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run one of the cluster's scripts."""
        command = [str(CLUSTER_SCRIPTS / script), *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, env={**self.environment, **more})

    def bash(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a few lines with `lib.sh` sourced."""
        source = f'. "{CLUSTER_SCRIPTS}/lib.sh"; {script}'
        return subprocess.run(["bash", "-c", source], check=False, capture_output=True, text=True, env=self.environment)
