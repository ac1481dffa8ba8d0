"""The independent model server `@copilotkit/aimock`: installed by npm into a cache, started on a port of its own.

It speaks the OpenAI and the Anthropic form from one set of fixtures, and was written by others: what it accepts and
sends is no echo of our own reading of the protocols.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aimock_pytest import AIMockServer, NodeManager

VERSION = "1.43.0"
PACKAGE = "@copilotkit/aimock"
NEEDS_NODE = 20


class AimockUnavailable(RuntimeError):
    """It cannot be started here; the message says what to install."""


def cache_directory() -> Path:
    """Where npm packages for tests are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "mikan-test" / f"aimock-{VERSION}"


def ensure_aimock() -> Path:
    """The program's path; installs it on first use. ``AIMOCK_CLI_PATH`` names another one.

    Raises:
        AimockUnavailable: no Node or no npm, or the package cannot be had.
    """
    if named := os.environ.get("AIMOCK_CLI_PATH"):
        return Path(named)
    program = cache_directory() / "node_modules" / PACKAGE / "dist" / "cli.js"
    if not program.is_file():
        _install(cache_directory())
    return program


def _install(directory: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise AimockUnavailable(f"npm is not installed; install Node.js {NEEDS_NODE} or newer with npm")
    directory.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", directory]
    done = subprocess.run([*command, f"{PACKAGE}@{VERSION}"], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise AimockUnavailable(f"npm cannot install {PACKAGE}@{VERSION}: {done.stderr.strip()[-500:]}")


@contextmanager
def aimock(fixtures: Path) -> Iterator[str]:
    """A running server that answers from a fixtures file; its base URL."""
    os.environ["AIMOCK_CLI_PATH"] = str(ensure_aimock())
    server = AIMockServer(NodeManager(), port=0, fixtures_path=fixtures)
    try:
        yield server.start()
    finally:
        process = server._proc
        server.stop()
        if process is not None and process.stdout is not None:
            process.stdout.close()
