"""Session files of a thousand to a hundred thousand entries: opened, read and appended to, beside the public pi agent.

Both get the same files, which are written here. Ours is measured in a process of its own, so that its memory is seen
from nothing.
"""

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mikan_bench.figures import Figure, Target
from pi_agent import PiAgent, pi_agent

SIZES = (1_000, 10_000, 100_000)
REPEATS = 3
APPENDS = 300
COMPACTED_EVERY = 2_000
"""Entries; 100 stay."""
USAGE = {"input": 1200, "output": 80, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1280}
COST = {"input": 0.001, "output": 0.002, "cacheRead": 0, "cacheWrite": 0, "total": 0.003}
ANSWER = {
    "role": "assistant",
    "api": "openai-completions",
    "provider": "p",
    "model": "m",
    "usage": USAGE | {"cost": COST},
    "stopReason": "stop",
    "timestamp": 1767225600000,
}
SAID = ANSWER | {"content": [{"type": "text", "text": "said " * 50}]}
CALLED: dict[str, Any] = ANSWER | {
    "content": [{"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "ls"}}],
    "stopReason": "toolUse",
}
RESULT = {
    "role": "toolResult",
    "toolCallId": "c",
    "toolName": "bash",
    "content": [{"type": "text", "text": "output " * 120}],
    "isError": False,
    "timestamp": 1767225600000,
}
ASKED = {"role": "user", "content": "asked " * 20, "timestamp": 1767225600000}


def write_session(file: Path, entries: int) -> None:
    """A session of so many entries: questions, calls, results and answers, compacted now and then."""
    ids = [f"{number * 2654435761 % 2**32:08x}" for number in range(entries)]
    with file.open("w") as lines:
        header = {"type": "session", "version": 3, "id": "bench", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
        lines.write(f"{json.dumps(header)}\n")
        for number, entry_id in enumerate(ids):
            said: dict[str, Any] = {"type": "message", "message": (ASKED, CALLED, RESULT, SAID)[number % 4]}
            if number % COMPACTED_EVERY == COMPACTED_EVERY - 1:
                said = {"type": "compaction", "summary": "summary " * 300, "firstKeptEntryId": ids[number - 99]}
                said["tokensBefore"] = 100_000
            place = {"id": entry_id, "parentId": ids[number - 1] if number else None}
            lines.write(json.dumps(said | place | {"timestamp": "2026-01-01T00:00:01.000Z"}, separators=(",", ":")))
            lines.write("\n")


def measure_sessions() -> Iterator[Figure]:
    """Opening with the first context, appending, and memory."""
    with tempfile.TemporaryDirectory() as name, pi_agent() as pi:
        found = {size: _measured(Path(name), size, pi) for size in SIZES}
    smallest = found[SIZES[0]][0]["append"]
    for size, (ours, theirs) in found.items():
        target = Target(theirs["open"]) if size == SIZES[-1] else None
        yield Figure(f"session of {size}, open, p50", ours["open"], "ms", {"pi agent": theirs["open"]}, target)
        yield Figure(f"session of {size}, first context, p50", ours["context"], "ms")
        floors = {"pi agent": theirs["append"]} | ({} if size == SIZES[0] else {f"of {SIZES[0]}": smallest})
        yield Figure(f"session of {size}, append, p50", ours["append"], "ms", floors)
        memory = {"pi agent": theirs["resident"] / 2**20}
        yield Figure(f"session of {size}, resident", ours["resident"] / 2**20, "MB", memory, Target(80))


def _measured(directory: Path, size: int, pi: PiAgent) -> tuple[dict[str, float], dict[str, float]]:
    file = directory / f"{size}.jsonl"
    write_session(file, size)
    ours = [json.loads(_run(_copy(file, f"ours-{n}"))) for n in range(REPEATS)]
    theirs = [pi.time(_copy(file, f"theirs-{n}"), SAID, APPENDS) for n in range(REPEATS)]
    file.unlink()
    return _middle(ours), _middle(theirs)


def _copy(file: Path, name: str) -> Path:
    return Path(shutil.copy(file, file.with_name(f"{name}.jsonl")))


def _run(file: Path) -> str:
    return subprocess.run([sys.executable, __file__, file], check=True, capture_output=True, text=True).stdout


def _middle(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _peak() -> float:
    """Bytes resident at most. Not what `getrusage` tells: that counts what the process was before this program."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


async def _one(file: Path) -> dict[str, float]:
    """What one process measures of ours: milliseconds, and resident bytes at the highest."""
    from mikan_agent.clock import SystemClock
    from mikan_agent.confined import ConfinedDirectory
    from mikan_agent.messages import parse_message
    from mikan_agent.sessions.journal import open_journal
    from mikan_agent.sessions.session import Session

    directory = ConfinedDirectory(file.parent)
    began = time.perf_counter()
    journal, loaded = open_journal(directory, file.name, "stamp")
    opened = time.perf_counter()
    session = Session(journal, loaded, directory.path, SystemClock())
    session.context()
    read = time.perf_counter()
    message, appends = parse_message(SAID), []
    for _ in range(APPENDS):
        start = time.perf_counter()
        await session.append_message(message)
        appends.append(time.perf_counter() - start)
    await session.close()
    return {
        "open": (opened - began) * 1000,
        "context": (read - opened) * 1000,
        "append": statistics.median(appends) * 1000,
        "resident": _peak(),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_one(Path(sys.argv[1])))))
