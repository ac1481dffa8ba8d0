"""Measure an installed mikan: every figure beside its floor from the same run. A table, and JSON.

``run.py [--short] [--json] [--release NAME]``: with ``--release`` the one that is installed under this name (namespace
of the same name), otherwise one of its own, which is removed afterwards. JSON goes to ``results/latest.json``, and with
``--json`` to standard output in place of the table. Needs KUBECONFIG, or a cluster that `make up` brought up.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mikan_bench.cold import GREETING, measure_cold
from mikan_bench.executor import measure_executor
from mikan_bench.figures import Figure, table
from mikan_bench.floors import measure_agent_floors
from mikan_bench.load import measure_load
from mikan_bench.plan import SHORT, WHOLE, Plan
from mikan_bench.rest import measure_rest
from mikan_bench.sessions import measure_sessions
from mikan_bench.warm import COMMAND, WarmOffice, measure_crowd

from mikan_cluster.commands import Helm, Kubectl
from mikan_cluster.release import Release
from mikan_dev.paths import cache_dir, kubeconfig, state_dir

LATEST = Path(__file__).parent / "results" / "latest.json"
NAME = "bench"
_BEGAN = time.monotonic()


def measure(release: Release, plan: Plan) -> Iterator[Figure]:
    """All figures. What disturbs others comes last, rest between."""
    office = WarmOffice(release)
    _say("warm office")
    office.start()
    floors = measure_agent_floors(release, office.key, plan.warm, GREETING, COMMAND)
    yield from office.measure(plan, floors)
    yield from office.memory(floors)
    _say("executor")
    yield from measure_executor(release, office.key, plan)
    _say("at rest")
    yield from measure_rest(release, plan, state_dir() / "log" / "audit.log")
    _say("sleeping office")
    yield from measure_cold(release, plan.cold, floors)
    _say("many chats")
    yield from measure_crowd(release, plan, floors)
    _say("many people at once")
    yield from measure_load(release, plan)
    _say("session files")
    yield from measure_sessions()
    release.kubectl("delete", "office", office.key, "-n", release.offices)


def measured(release: Release, plan: Plan) -> tuple[list[Figure], dict[str, Any]]:
    """All figures, and what is to be known beside them. Those of a run that fails are told before it does."""
    began, load = time.monotonic(), os.getloadavg()
    figures: list[Figure] = []
    try:
        for figure in measure(release, plan):
            _say(f"{figure.name}: {figure.value:.2f} {figure.unit}")
            figures.append(figure)
    except BaseException:
        print(table(figures), file=sys.stderr)
        raise
    about = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began, 1),
        "cpus": os.cpu_count(),
        "load": [round(average, 1) for average in (*load, *os.getloadavg())],
    }
    return figures, about


@contextlib.contextmanager
def installed(kubectl: Kubectl, helm: Helm, name: str | None) -> Iterator[Release]:
    """The named release, or one of its own for the time of the block."""
    if name:
        yield Release(kubectl, helm, name, name)
        return
    # Only the office that is to fall asleep does, and as many begin as the plan has.
    settings = ("--set", "settings.idleTimeout=1h,settings.admission.console.officesPerHour=10000")
    own = Release(kubectl, helm, NAME, NAME, values=settings)
    _say("installing")
    own.install()
    try:
        yield own
    finally:
        own.uninstall()
        kubectl("delete", "namespace", own.offices, own.namespace, "--timeout=120s")


def main() -> None:
    arguments = argparse.ArgumentParser(description="Measure an installed mikan.")
    arguments.add_argument("--short", action="store_true", help="just enough to see every figure, in under a minute")
    arguments.add_argument("--json", action="store_true", help="JSON to standard output")
    arguments.add_argument("--release", help="use this installed release instead of a new one")
    given = arguments.parse_args()
    cluster, binaries = kubeconfig(), cache_dir() / "bin"
    kubectl, helm = Kubectl(binaries / "kubectl", cluster), Helm(binaries / "helm", cluster)
    with installed(kubectl, helm, given.release) as release:
        figures, about = measured(release, SHORT if given.short else WHOLE)
    result = json.dumps({**about, "figures": [figure.to_json() for figure in figures]}, indent=2, ensure_ascii=False)
    LATEST.parent.mkdir(exist_ok=True)
    LATEST.write_text(result + "\n")
    print(result if given.json else f"{table(figures)}\n\n{json.dumps(about)}\nJSON: {LATEST}")


def _say(what: str) -> None:
    print(f"-- {what} ({time.monotonic() - _BEGAN:.0f} s)", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
