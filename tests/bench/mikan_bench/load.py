"""Many people at once: offices that all wake, a flood of messages, a long conversation; nothing lost, nothing doubled.

Each beside a bare bot on the same models process, which keeps nothing, and beside what the node itself needs.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubernetes import client, config

from mikan_api import names
from mikan_api.identity import OfficeKey
from mikan_bench.cold import EXPECTED, GREETING
from mikan_bench.figures import Figure, Target, p50, p99, percentile
from mikan_bench.floors import bare_pod
from mikan_bench.plan import Plan
from mikan_bench.pods import chats, in_agent, in_process
from mikan_bench.rest import COMPONENTS
from mikan_cluster.commands import eventually
from mikan_cluster.release import Chat, Release

STARTED_TOGETHER = 4
"""Offices woken at once where how fast many wake is not the question."""
PODS_OF_AN_OFFICE = 2


def measure_load(release: Release, plan: Plan) -> Iterator[Figure]:
    """All of it, in one crowd of offices, which is gone afterwards."""
    crowd = [Chat(release) for _ in range(max(plan.firsts, plan.flood_chats))]
    yield from _firsts(release, crowd[: plan.firsts], plan)
    _wake(release, crowd[plan.firsts :])
    yield from _flood(release, crowd[: plan.flood_chats], plan)
    yield from _long(release, crowd[0], plan)
    release.kubectl("delete", "office", "-n", release.offices, *(chat.key for chat in crowd))


def _firsts(release: Release, crowd: Sequence[Chat], plan: Plan) -> Iterator[Figure]:
    """The first message of many new conversations at once."""
    pods = len(crowd) * PODS_OF_AN_OFFICE
    floor = {f"{pods} bare pods, created at once, all Ready": measure_bare_pods(release, pods)}
    time.sleep(plan.rest_settles)  # the API has forgotten those pods before the node has cleaned up after them
    before = Spent.now(release)
    found = chats(release, [chat.conversation for chat in crowd], GREETING, EXPECTED)
    _one_pod_of_each(release, crowd)
    name = f"{len(crowd)} first messages at once"
    seconds = max(found["rounds"]) / 1000
    (bare,) = floor.values()
    yield Figure(f"{name}, all answered", seconds, "s", floor, Target(1.5 * bare))
    yield from _percentiles(f"{name}, to final text", [m["final"] / 1000 for m in found["messages"]], "s")
    yield from before.until(Spent.now(release), name)


def _one_pod_of_each(release: Release, crowd: Sequence[Chat]) -> None:
    """Fails where an office has more or fewer pods than it should."""

    def probe() -> bool:
        for chat in crowd:
            there = release.pods(chat.key)
            assert sorted(there) == [names.agent_pod(chat.key), names.sandbox_pod(chat.key)], (chat.key, there)
        return True

    eventually("two pods of each office", probe, seconds=120)


def _wake(release: Release, crowd: Sequence[Chat]) -> None:
    conversations = [chat.conversation for chat in crowd]
    for start in range(0, len(crowd), STARTED_TOGETHER):
        chats(release, conversations[start : start + STARTED_TOGETHER], GREETING, EXPECTED)


def _flood(release: Release, crowd: Sequence[Chat], plan: Plan) -> Iterator[Figure]:
    """Thousands of messages, each conversation's as fast as they are accepted."""
    job = {"messages": plan.flood_messages, "text": GREETING, "expect": EXPECTED}
    bare = in_agent(release, crowd[0].key, "bare_bot", {"chats": len(crowd), **job})
    before = Spent.now(release, crowd[0].key)
    found = in_process(release, "gateway", "load", {"conversations": [chat.conversation for chat in crowd], **job})
    after = Spent.now(release, crowd[0].key)
    count = len(crowd) * plan.flood_messages
    name = f"{count} messages over {len(crowd)} chats"
    beside = {"bare bot": count / bare["seconds"]}
    yield Figure(f"{name}, answers a second", count / found["seconds"], "1/s", beside)
    yield from _percentiles(f"{name}, to accepted", found["accepted"], "ms")
    for label, percent in (("p50", 50), ("p90", 90), ("p99", 99), ("max", 100)):
        floor = {"bare bot": percentile(bare["answered"], percent) / 1000}
        yield Figure(f"{name}, to answered, {label}", percentile(found["answered"], percent) / 1000, "s", floor)
    yield from before.until(after, name)
    size = in_process(release, "gateway", "database")["mb"]
    yield Figure(f"{name}, database afterwards", size, "MB")


def _long(release: Release, chat: Chat, plan: Plan) -> Iterator[Figure]:
    """One conversation that grows long."""
    tenth = max(1, plan.turns // 10)
    before = Spent.now(release, chat.key)
    messages: list[Any] = []
    spent: list[Spent] = [before]
    for start in range(0, plan.turns, tenth):
        rounds = min(tenth, plan.turns - start)
        messages += chats(release, [chat.conversation], GREETING, EXPECTED, rounds)["messages"]
        spent.append(Spent.now(release, chat.key))
    final = [message["final"] for message in messages]
    name = f"{plan.turns} turns in one chat"
    first, last = final[:tenth], final[-tenth:]
    yield Figure(f"{name}, last tenth, p50", p50(last), "ms", {"first tenth": p50(first)})
    yield Figure(f"{name}, last tenth, p99", p99(last), "ms", {"first tenth": p99(first)})
    for process in spent[0].cpu:
        begun, ended = (
            (spent[at + 1].cpu[process] - spent[at].cpu[process]) * 1000 / tenth for at in (0, len(spent) - 2)
        )
        yield Figure(f"{name}, CPU of {process} a turn, last tenth", ended, "ms", {"first tenth": begun})
    yield Figure(f"{name}, agent resident afterwards", spent[-1].resident["agent"], "MB", target=Target(80))


def _percentiles(name: str, values: Sequence[float], unit: str) -> Iterator[Figure]:
    for label, percent in (("p50", 50), ("p90", 90), ("p99", 99), ("max", 100)):
        yield Figure(f"{name}, {label}", percentile(values, percent), unit)


@dataclass(frozen=True)
class Spent:
    """What each process has used so far."""

    cpu: Mapping[str, float]
    """Seconds."""
    resident: Mapping[str, float]
    """MB, as the next."""
    peak: Mapping[str, float]

    @classmethod
    def now(cls, release: Release, agent: OfficeKey | None = None) -> "Spent":
        """Ask every process, and one agent."""
        found = {component: in_process(release, component, "process") for component in COMPONENTS}
        if agent is not None:
            found["agent"] = in_agent(release, agent, "process")
        fields = ("cpu", "resident_mb", "peak_mb")
        return cls(*({process: told[field] for process, told in found.items()} for field in fields))

    def until(self, later: "Spent", name: str) -> Iterator[Figure]:
        """What was used since."""
        for process, before in self.cpu.items():
            yield Figure(f"{name}, CPU of {process}", later.cpu[process] - before, "s")
        for process in self.cpu:
            so_far = {"resident afterwards": later.resident[process]}
            yield Figure(f"{name}, {process} resident at most", later.peak[process], "MB", so_far)


def measure_bare_pods(release: Release, count: int) -> float:
    """Seconds from the creation of so many pods at once until all are Ready: the node's own time."""
    config.load_kube_config(str(release.kubectl.kubeconfig))
    api, namespace = client.CoreV1Api(), release.offices
    pods = [bare_pod(release, f"bare-{number}", ["sleep", "600"], {"bench": "bare"}) for number in range(count)]
    began = time.perf_counter()
    for pod in pods:
        api.create_namespaced_pod(namespace, pod)
    try:
        while True:
            there = api.list_namespaced_pod(namespace, label_selector="bench=bare").items
            if sum(map(_is_ready, there)) == count:
                return time.perf_counter() - began
            time.sleep(0.2)
    finally:
        api.delete_collection_namespaced_pod(namespace, label_selector="bench=bare", grace_period_seconds=0)
        eventually(
            "bare pods gone",
            lambda: not api.list_namespaced_pod(namespace, label_selector="bench=bare").items,
            seconds=180,
        )


def _is_ready(pod: Any) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions or [])
