"""A PostgreSQL server of our own, for tests: Debian's binaries, a temporary directory, a free port.

Started once for a test process and stopped with it. The server refuses to run as root, so that as root it runs as the
user ``postgres`` that the package brings.
"""

import atexit
import functools
import getpass
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

from free_port import free_port

_PLACES = ("/usr/lib/postgresql", "/usr/local/lib/postgresql")


class PostgresMissing(Exception):
    """The server's programs are not installed."""


def _binaries() -> Path:
    found = sorted(path.parent for place in _PLACES for path in Path(place).glob("*/bin/initdb"))
    if not found:
        raise PostgresMissing("no PostgreSQL server programs: apt-get install postgresql")
    return found[-1]


class PostgresServer:
    """A running server; databases are made and dropped at will."""

    def __init__(self, root: Path) -> None:
        self._bin, self._root, self._port = _binaries(), root, free_port()
        self._user = "postgres" if os.geteuid() == 0 else getpass.getuser()
        self._as: dict[str, int] = {}
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(root, owner.pw_uid, owner.pw_gid)
            self._as = {"user": owner.pw_uid, "group": owner.pw_gid}

    @property
    def user(self) -> str:
        """The role that may do everything."""
        return self._user

    @property
    def as_user(self) -> list[str]:
        """Begins the command line of what is run as the server's user, who must not be root."""
        return [str(shutil.which("setpriv")), f"--reuid={self._user}", "--clear-groups"] if self._as else []

    def program(self, name: str) -> Path:
        """One of PostgreSQL's programs."""
        return self._bin / name

    def prepare(self, password: str) -> None:
        """Make the files of a server that others reach by the network, with a password."""
        secret = self._root / "password"
        secret.write_text(password)
        shutil.chown(secret, self._user)
        files = ("-D", f"{self._root}/data", "-A", "scram-sha-256", f"--pwfile={secret}", "-U", self._user, "--no-sync")
        self._run("initdb", *files)
        with (self._root / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all scram-sha-256\n")

    def command(self, address: str, port: int) -> list[str]:
        """The command line of a prepared server that listens there."""
        options = [f"listen_addresses={address}", f"port={port}", f"unix_socket_directories={self._root}", "fsync=off"]
        argv = [str(self.program("postgres")), "-D", f"{self._root}/data"]
        return [*self.as_user, *argv, *(word for option in options for word in ("-c", option))]

    def start(self) -> None:
        """Initialise and start; returns when it answers."""
        self._run("initdb", "-D", f"{self._root}/data", "-A", "trust", "-U", self._user, "--no-sync")
        # Only our own processes are killed here, never the machine: the server need not sync.
        options = f"-p {self._port} -c fsync=off -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._root}"
        self._run("pg_ctl", "-D", f"{self._root}/data", "-l", f"{self._root}/log", "-w", "-o", options, "start")

    def stop(self) -> None:
        """Stop at once and remove everything."""
        self._run("pg_ctl", "-D", f"{self._root}/data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(self._root, ignore_errors=True)

    def create_database(self) -> str:
        """An empty schema of its own, which a URL of its own role finds first; quicker than a database."""
        name = f"mikan_{secrets.token_hex(6)}"
        sql = f"CREATE ROLE {name} LOGIN; CREATE SCHEMA {name} AUTHORIZATION {name}"
        where = ("-h", "127.0.0.1", "-p", str(self._port), "-U", self._user, "-d", "postgres")
        self._run("psql", *where, "-q", "-v", "ON_ERROR_STOP=1", "-c", sql)
        return f"postgresql+asyncpg://{name}@127.0.0.1:{self._port}/postgres"

    def _run(self, program: str, *arguments: str) -> None:
        # Output goes nowhere: the server would keep a pipe open for ever.
        subprocess.run(
            [self._bin / program, *arguments],
            check=True,
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
            extra_groups=[] if self._as else None,
            **self._as,
        )


@functools.cache
def postgres_server() -> PostgresServer:
    """The test process's own server."""
    root = Path(tempfile.mkdtemp(prefix="mikan-postgres-"))
    server = PostgresServer(root)
    server.start()
    atexit.register(server.stop)
    return server
