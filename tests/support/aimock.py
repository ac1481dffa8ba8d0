"""The independent model server `@copilotkit/aimock`: installed by npm into a cache, started on a port of its own.

It speaks the OpenAI and the Anthropic form from one set of fixtures, and was written by others: what it accepts and
sends is no echo of our own reading of the protocols.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aimock_pytest import AIMockServer, NodeManager

from npm_packages import installed

VERSION = "1.43.0"
PACKAGE = "@copilotkit/aimock"


def ensure_aimock() -> Path:
    """The program's path; installs it on first use. ``AIMOCK_CLI_PATH`` names another one.

    Raises:
        PackageUnavailable: no npm, or the package cannot be had.
    """
    if named := os.environ.get("AIMOCK_CLI_PATH"):
        return Path(named)
    return installed(PACKAGE, VERSION) / "dist" / "cli.js"


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
