"""Servers in the namespace that plays the Internet: Telegram, and a database."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from mikan_cluster.commands import eventually
from mikan_dev.paths import CLUSTER_SCRIPTS
from postgres import PostgresServer

ADDRESS = "203.0.113.10"
_SUPPORT = Path(__file__).parents[1]


def outside(*command: str) -> list[str]:
    """The command line that runs a command there."""
    return [str(CLUSTER_SCRIPTS / "ctl.sh"), "outside", *command]


@contextmanager
def running(command: Sequence[str]) -> Iterator[None]:
    """Run a server, and end it with all that it started."""
    server = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=20)


class OutsideTelegram:
    """People on a Bot API server."""

    def __init__(self, control: Path, port: int) -> None:
        self.url = f"http://{ADDRESS}:{port}"
        self._client = httpx.Client(transport=httpx.HTTPTransport(uds=str(control)), base_url="http://telegram")

    def say(self, person: int, text: str) -> None:
        self._client.post(f"/people/{person}/say", json={"text": text}).raise_for_status()

    def sees(self, person: int) -> list[str]:
        """What stands of the bot's in somebody's private chat."""
        return [message["text"] for message in self._client.get(f"/people/{person}/sees").raise_for_status().json()]

    def calls(self) -> dict[str, int]:
        """How often each method was called."""
        found: dict[str, int] = self._client.get("/calls").raise_for_status().json()
        return found

    def conflicts(self) -> int:
        """How many pollers were told of another one."""
        return int(self._client.get("/conflicts").raise_for_status().json())

    def answered(self, person: int, text: str, seconds: float = 60) -> None:
        """Wait until a text is seen."""

        def seen() -> bool:
            texts = self.sees(person)
            assert any(text in shown for shown in texts), texts
            return True

        eventually(f"{person} sees {text!r}", seen, seconds=seconds)

    def close(self) -> None:
        self._client.close()


def _listens(control: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(control)) == 0


@contextmanager
def outside_telegram(control: Path, port: int) -> Iterator[OutsideTelegram]:
    """A Bot API server; ``control`` is where its socket for tests is made."""
    argv = ["env", f"PYTHONPATH={_SUPPORT}", sys.executable, "-m", "servers.telegram"]
    options = ["--host", ADDRESS, "--port", str(port), "--control", str(control)]
    with running(outside(*argv, *options)):
        people = OutsideTelegram(control, port)
        try:
            eventually("the server listens", lambda: _listens(control))
            yield people
        finally:
            people.close()


@contextmanager
def outside_postgres(port: int) -> Iterator[str]:
    """A database with a password; the URL by which pods reach it."""
    root = Path(tempfile.mkdtemp(prefix="mikan-postgres-"))
    server, password = PostgresServer(root), secrets.token_hex(16)
    try:
        server.prepare(password)
        with running(outside(*server.command(ADDRESS, port))):
            check = [*server.as_user, str(server.program("pg_isready")), "-q", "-h", ADDRESS, "-p", str(port)]
            eventually(
                "the database answers",
                lambda: subprocess.run(outside(*check), capture_output=True, check=False).returncode == 0,
            )
            yield f"postgresql+asyncpg://{server.user}:{password}@{ADDRESS}:{port}/postgres"
    finally:
        shutil.rmtree(root, ignore_errors=True)
