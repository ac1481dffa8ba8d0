"""What a release costs while nothing happens."""

import time
from collections.abc import Iterator
from pathlib import Path

from mikan_bench.figures import Figure, Target
from mikan_bench.plan import Plan
from mikan_bench.pods import in_process
from mikan_cluster.release import Release, audited_writes

COMPONENTS = ("operator", "gateway", "models")


def measure_rest(release: Release, plan: Plan, audit_log: Path) -> Iterator[Figure]:
    """Writes of our processes, Leases aside; their memory and their CPU."""
    time.sleep(plan.rest_settles)
    before = _processes(release)
    since = time.time()
    time.sleep(plan.rest)
    writes = [entry["user"]["username"] for entry in audited_writes(audit_log, since)]
    minutes = (time.time() - since) / 60
    after = _processes(release)
    account = f"system:serviceaccount:{release.namespace}:{release.name}-"
    for component in COMPONENTS[:2]:
        count = sum(name == f"{account}{component}" for name in writes)
        yield Figure(f"{component} at rest, API writes a minute", count / minutes, "", {"none": 0.0}, Target(0))
    for component in COMPONENTS:
        target = Target(200) if component == "operator" else None
        yield Figure(f"{component}, resident", after[component]["resident_mb"], "MB", target=target)
        spent = (after[component]["cpu"] - before[component]["cpu"]) / minutes
        yield Figure(f"{component} at rest, CPU seconds a minute", spent, "s")


def _processes(release: Release) -> dict[str, dict[str, float]]:
    return {component: in_process(release, component, "process") for component in COMPONENTS}
