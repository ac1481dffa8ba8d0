"""Calls to other programs, and the progress lines that a waiting person reads."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import environ
from pathlib import Path

from mikan_dev.exceptions import CommandFailed, ToolMissing

PACKAGES = {
    "docker": "Docker",
    "go": "Go 1.26.6 or newer",
    "kind": "kind",
    "kubectl": "kubectl",
    "mmdebstrap": "mmdebstrap (apt-get install mmdebstrap)",
    "nsenter": "util-linux (apt-get install util-linux)",
    "uv": "uv (pip install uv)",
}
"""What to install for each program that may be missing."""


def run(*command: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a program and return its standard output; ``env`` adds to the environment.

    Raises:
        ToolMissing: It is not installed.
        CommandFailed: It exited with an error.
    """
    try:
        done = subprocess.run(
            [str(part) for part in command],
            check=False,
            capture_output=True,
            text=True,
            env={**environ, **(env or {})},
            cwd=cwd,
        )
    except FileNotFoundError as error:
        raise ToolMissing(missing(str(command[0]))) from error
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise CommandFailed(f"{Path(command[0]).name} failed with exit code {done.returncode}:\n{tail}")
    return done.stdout


def stream(*command: str | Path, env: Mapping[str, str] | None = None) -> None:
    """Run a program whose output the user watches on standard error.

    Raises:
        ToolMissing: It is not installed.
        CommandFailed: It exited with an error.
    """
    try:
        done = subprocess.run(
            [str(part) for part in command], check=False, stdout=sys.stderr, env={**environ, **(env or {})}
        )
    except FileNotFoundError as error:
        raise ToolMissing(missing(str(command[0]))) from error
    if done.returncode:
        raise CommandFailed(f"{Path(command[0]).name} failed with exit code {done.returncode}; its output is above")


def which(program: str, *candidates: Path) -> Path:
    """Path of a program: the first existing candidate, else the one on PATH.

    Raises:
        ToolMissing: There is none.
    """
    for candidate in candidates:
        if candidate.exists():
            return candidate
    found = shutil.which(program)
    if found is None:
        raise ToolMissing(missing(program))
    return Path(found)


def missing(program: str) -> str:
    """Sentence that says which program is missing and what brings it."""
    return f"`{Path(program).name}` is not there: install {PACKAGES.get(Path(program).name, Path(program).name)}"


def say(text: str) -> None:
    """Print one line for the person who waits."""
    print(f"{time.strftime('%T')} {text}", file=sys.stderr, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Announce a step and say how long it took, in seconds."""
    began = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - began:.1f} s")
