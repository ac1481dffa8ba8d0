"""npm packages that tests talk to: installed once into a cache, each at one version."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

NEEDS_NODE = 20


class PackageUnavailable(RuntimeError):
    """A package cannot be had here; the message says what to install."""


def installed(package: str, version: str) -> Path:
    """The package's directory; installs it on first use, once however many ask at the same time.

    Raises:
        PackageUnavailable: no npm, or the package cannot be had.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mikan-test"
    directory = cache / f"{package.rpartition('/')[2]}-{version}"
    found = directory / "node_modules" / package
    marker = directory / "installed"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not marker.exists():
            _install(directory, f"{package}@{version}")
            marker.touch()
    return found


def _install(directory: Path, package: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise PackageUnavailable(f"npm is not installed; install Node.js {NEEDS_NODE} or newer with npm")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(directory), package]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise PackageUnavailable(f"npm cannot install {package}: {done.stderr.strip()[-500:]}")
