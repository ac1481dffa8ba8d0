"""A running office: message to answer, with and without a command; many chats at once; what each process spends."""

from collections.abc import Iterator
from typing import Any

from mikan_api import names
from mikan_api.identity import OfficeKey
from mikan_bench.cold import EXPECTED, GREETING
from mikan_bench.figures import Figure, Target, p50, p99
from mikan_bench.floors import AgentFloors
from mikan_bench.plan import Plan
from mikan_bench.pods import chats, in_agent, in_pod, in_process
from mikan_cluster.release import Chat, Release

COMMAND, PRINTED = "run: echo mikan", "mikan"
STARTED_TOGETHER = 4
"""Offices woken at once before a crowd is measured: how fast many wake is another question."""


class WarmOffice:
    """One office whose pods run, and what is measured in it."""

    def __init__(self, release: Release) -> None:
        self._release, self._chat = release, Chat(release)
        self._resident: dict[int, float] = {}

    @property
    def key(self) -> OfficeKey:
        return self._chat.key

    def start(self) -> None:
        """Have both pods running, and one turn done."""
        self._ask(GREETING, EXPECTED, 1)
        self._resident[1] = in_agent(self._release, self.key, "process")["resident_mb"]
        self._ask(COMMAND, PRINTED, 1)

    def measure(self, plan: Plan, floors: AgentFloors) -> Iterator[Figure]:
        """Messages to it, one after another."""
        disk = {"gateway, one durable write": p50(in_process(self._release, "gateway", "fsync")["fsync"])}
        for kind, text, expect, model, target, bound in (
            ("message", GREETING, EXPECTED, floors.model, Target(23), Target(60)),
            ("message with one bash call", COMMAND, PRINTED, floors.model_with_tool, Target(41), None),
        ):
            before = self._spent()
            found = self._ask(text, expect, plan.warm)
            spent = {name: (after - before[name]) * 1000 / plan.warm for name, after in self._spent().items()}
            final = [message["final"] for message in found["messages"]]
            beside = {
                "scripted model, asked directly": model,
                "WebSocket round trip": floors.websocket,
                "console request that does nothing": p50(found["request"]),
                **disk,
            }
            yield Figure(f"warm {kind}, to final text, p50", p50(final), "ms", beside, target, p50(final) - model)
            yield Figure(f"warm {kind}, to final text, p99", p99(final), "ms", beside, bound, p99(final) - model)
            tenth = max(1, plan.warm // 5)
            grown = p50(final[-tenth:]) - p50(final[:tenth])
            yield Figure(f"warm {kind}, last fifth less first fifth of {plan.warm}", grown, "ms")
            for moment in ("accepted", "done"):
                yield Figure(f"warm {kind}, to {moment}, p50", p50([m[moment] for m in found["messages"]]), "ms")
            for name, milliseconds in spent.items():
                yield Figure(f"warm {kind}, CPU of {name}, mean", milliseconds, "ms")
            if kind == "message":
                self._resident[plan.warm] = in_agent(self._release, self.key, "process")["resident_mb"]

    def memory(self, floors: AgentFloors) -> Iterator[Figure]:
        """Resident memory of its agent."""
        beside = {"Python that imports the same libraries": floors.imports_mb}
        for turns, resident in self._resident.items():
            yield Figure(f"agent, resident after {turns} turns", resident, "MB", beside, Target(80))

    def _ask(self, text: str, expect: str, rounds: int) -> Any:
        return chats(self._release, [self._chat.conversation], text, expect, rounds)

    def _spent(self) -> dict[str, float]:
        """CPU seconds so far of every process that a message passes through."""
        release = self._release
        return {
            "gateway": in_process(release, "gateway", "process")["cpu"],
            "models": in_process(release, "models", "process")["cpu"],
            "operator": in_process(release, "operator", "process")["cpu"],
            "agent": in_pod(release, release.offices, names.agent_pod(self.key), "process")["cpu"],
        }


def measure_crowd(release: Release, plan: Plan, floors: AgentFloors) -> Iterator[Figure]:
    """Chats at once, each with an office of its own."""
    crowd = [Chat(release) for _ in range(plan.crowd)]
    conversations = [chat.conversation for chat in crowd]
    for start in range(0, plan.crowd, STARTED_TOGETHER):
        chats(release, conversations[start : start + STARTED_TOGETHER], GREETING, EXPECTED)
    before = in_process(release, "gateway", "process")["cpu"]
    found = chats(release, conversations, GREETING, EXPECTED, plan.crowd_rounds)
    spent = in_process(release, "gateway", "process")["cpu"] - before
    model = {"scripted model, that many times one after another": floors.model * plan.crowd}
    name = f"{plan.crowd} chats at once"
    yield Figure(f"{name}, all answered, p50", p50(found["rounds"]), "ms", model, Target(270))
    yield Figure(f"{name}, each to final text, p50", p50([m["final"] for m in found["messages"]]), "ms")
    yield Figure(f"{name}, CPU of gateway, mean", spent * 1000 / plan.crowd_rounds, "ms")
    release.kubectl("delete", "office", "-n", release.offices, *(chat.key for chat in crowd))
