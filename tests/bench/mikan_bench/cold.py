"""A sleeping office: how long until the first reply and the whole answer, beside a bare pod; and the agent's start."""

import json
from collections.abc import Iterator
from datetime import datetime

from mikan_api import names
from mikan_api.identity import OfficeKey
from mikan_bench.figures import Figure, Target, p50
from mikan_bench.floors import AgentFloors, measure_bare_pod
from mikan_bench.pods import chats, in_agent
from mikan_cluster.commands import eventually
from mikan_cluster.release import Chat, Release

GREETING, EXPECTED = "hello", "(scripted model)"
CONNECTED = "connected to the gateway"
ASLEEP_WITHIN = 180.0
"""Seconds; much more than it takes, for a machine with other work."""


def measure_cold(release: Release, count: int, floors: AgentFloors) -> Iterator[Figure]:
    """Let one office fall asleep and wake it again and again, with a bare pod each time."""
    chat = Chat(release)
    chats(release, [chat.conversation], GREETING, EXPECTED)
    patch = '{"spec":{"idleTimeout":"2s"}}'
    release.kubectl("patch", "office", chat.key, "-n", release.offices, "--type=merge", "-p", patch)
    answers, starts, bare = [], [], []
    for number in range(count):
        release.await_condition(chat.key, "False", "Idle", seconds=ASLEEP_WITHIN)
        eventually("no pods", lambda: release.pods(chat.key) == [], seconds=ASLEEP_WITHIN)
        bare.append(measure_bare_pod(release, f"floor-{number}"))
        answers += chats(release, [chat.conversation], GREETING, EXPECTED)["messages"]
        starts.append(_seconds_to_connected(release, chat.key))
    release.kubectl("delete", "office", chat.key, "-n", release.offices)
    pods = {
        "bare pod, create to Ready": p50([ready for ready, _ in bare]),
        "bare pod, create to a Python server listening": p50([serving for _, serving in bare]),
    }
    for name, moment, target in (("first reply", "first", Target(1.2)), ("final answer", "final", None)):
        seconds = p50([answer[moment] / 1000 for answer in answers])
        own = seconds - floors.model / 1000 if target else None
        yield Figure(f"sleeping office, message to {name}, p50", seconds, "s", pods, target, own)
    imports = {"Python that imports the same libraries": floors.imports / 1000}
    yield Figure("agent, start of Python to connected, p50", p50(starts), "s", imports, Target(0.7))


def _seconds_to_connected(release: Release, key: OfficeKey) -> float:
    log = release.kubectl("logs", "-n", release.offices, names.agent_pod(key)).splitlines()
    connected = next(entry for entry in map(json.loads, log) if entry["message"] == CONNECTED)
    started: float = in_agent(release, key, "process")["started"]
    return datetime.fromisoformat(connected["time"]).timestamp() - started
