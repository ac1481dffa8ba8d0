"""The sandbox helper as a program of this machine."""

import os
import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def build_helper(directory: Path) -> Path:
    """Build it from this checkout into a directory, or take the one that ``MIKAN_SANDBOX_HELPER`` names."""
    if (built := os.environ.get("MIKAN_SANDBOX_HELPER")) is not None:
        return Path(built)
    go = shutil.which("go") or subprocess.check_output([REPOSITORY / "tests/cluster/go.sh"], text=True).strip()
    binary = directory / "mikan-sandbox"
    subprocess.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-o", binary, "."],
        cwd=REPOSITORY / "agent/sandbox",
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    return binary
