"""Processes that start at once: a mother imports everything a process needs, and forks for each.

What runs is the process's own ``main`` in a process of its own; only the seconds of importing are saved. Asked over a
UNIX socket, one connection a child: the request is one line of JSON, the answers are its pid and then how it ended.
"""

import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).parent


class Forked:
    """A child; ``returncode`` as in `subprocess`, ``None`` while it runs."""

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._reader, self._writer = reader, writer
        self._ended = asyncio.ensure_future(self._wait())

    async def wait(self) -> int:
        """How it ended."""
        return await asyncio.shield(self._ended)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    async def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal and wait for the end."""
        self.send(number)
        return await self.wait()

    async def _wait(self) -> int:
        self.returncode = int(await self._reader.readline())
        self._writer.close()
        return self.returncode


class Mother:
    """Forks children of one program, ``module:function``; what the function returns is the exit code."""

    def __init__(self, program: str, path: Path) -> None:
        """Import the program; ``path`` is where the mother listens."""
        self._path = path
        self._process = subprocess.Popen(
            [sys.executable, "-m", "forked", program, str(path)],
            env={**os.environ, "PYTHONPATH": str(SUPPORT)},
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == b"ready\n"

    async def fork(self, environment: dict[str, str], log: Path) -> Forked:
        """Start a child with an environment of its own; what it prints is added to a file."""
        reader, writer = await asyncio.open_unix_connection(self._path)
        writer.write(json.dumps({"environment": environment, "log": str(log)}).encode() + b"\n")
        return Forked(int(await reader.readline()), reader, writer)

    def stop(self) -> None:
        """End the mother; children must have ended."""
        self._process.terminate()
        self._process.communicate()


def _child(program: Callable[[], int], request: dict[str, Any]) -> int:
    os.environ.clear()
    os.environ.update(request["environment"])
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    # Nor may it hold the mother's output, whose end is what the mother's end is known by.
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        return program()
    except SystemExit as error:
        return int(error.code or 0)
    except BaseException:  # noqa: BLE001  the child must not become a second mother
        traceback.print_exc()
        return 1


def _serve(program: Callable[[], int], connection: socket.socket) -> None:
    """In a process between mother and child, that waits for it."""
    with connection, connection.makefile("rwb") as stream:
        request = json.loads(stream.readline())
        pid = os.fork()
        if pid == 0:
            connection.close()
            code = _child(program, request)
            sys.stderr.flush()
            os._exit(code)
        stream.write(b"%d\n" % pid)
        stream.flush()
        _, status = os.waitpid(pid, 0)
        stream.write(b"%d\n" % os.waitstatus_to_exitcode(status))


def main(program: str, path: str) -> None:
    """Be the mother."""
    module, _, function = program.partition(":")
    start: Callable[[], int] = getattr(importlib.import_module(module), function)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        print("ready", flush=True)
        while True:
            connection, _ = listening.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listening.close()
                _serve(start, connection)
                os._exit(0)
            connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
