"""Counts what a process has open, from outside: its tasks and its file descriptors. What leaks shows as growth.

A process that has called `answer` writes its tasks to a file whenever it gets SIGUSR1.
"""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "TEST_CENSUS"
"""Where the answers go; the process's id is appended."""


@dataclass(frozen=True)
class Census:
    """What there was at one moment."""

    tasks: Mapping[str, int]
    """By what they run."""
    descriptors: int


def answer(environ: Mapping[str, str]) -> None:
    """Answer from now on, if the environment says where to."""
    root = environ.get(VARIABLE)
    if root:
        path = Path(f"{root}.{os.getpid()}")
        signal.signal(signal.SIGUSR1, lambda *_: _write(path))


def _write(path: Path) -> None:
    # The handler runs between two steps of the loop, in its thread.
    tasks = Counter(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())
    staged = path.with_suffix(".new")
    staged.write_text(json.dumps(tasks))
    staged.replace(path)


async def census(pid: int, root: Path) -> Census:
    """Ask a process."""
    return await asyncio.to_thread(_ask, pid, Path(f"{root}.{pid}"))


def _ask(pid: int, path: Path) -> Census:
    path.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    end = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < end, f"process {pid} does not answer"
        time.sleep(0.01)
    return Census(json.loads(path.read_text()), len(os.listdir(f"/proc/{pid}/fd")))
