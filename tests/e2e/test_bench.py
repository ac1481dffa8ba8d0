"""The benchmarks produce every figure that they promise; what the figures are is nobody's failure here."""

import json
import math
import os
import subprocess
import sys

import pytest

from mikan_cluster.release import REPOSITORY, Release

FIGURES = {
    "sleeping office, message to first reply, p50",
    "sleeping office, message to final answer, p50",
    "warm message, to final text, p50",
    "warm message, to final text, p99",
    "warm message with one bash call, to final text, p50",
    "2 chats at once, all answered, p50",
    "4 first messages at once, all answered",
    "40 messages over 4 chats, answers a second",
    "40 messages over 4 chats, to accepted, p99",
    "40 messages over 4 chats, to answered, p99",
    "20 turns in one chat, last tenth, p50",
    "executor, true, p50",
    "executor, output",
    "executor, file in",
    "executor, file out",
    "agent, resident after 1 turns",
    "agent, resident after 5 turns",
    "agent, start of Python to connected, p50",
    "operator at rest, API writes a minute",
    "operator, resident",
}
OWN_FLOOR = {"operator, resident", "40 messages over 4 chats, to accepted, p99"}
"""Have nothing to stand beside."""


@pytest.mark.bench
@pytest.mark.timeout(600)
def test_a_short_run_gives_every_figure_as_a_number_beside_its_floor(release: Release) -> None:
    bench = REPOSITORY / "tests" / "bench"
    path = os.pathsep.join([str(REPOSITORY / "tests" / "support"), str(bench)])
    done = subprocess.run(
        [sys.executable, str(bench / "run.py"), "--short", "--json", "--release", release.name],
        capture_output=True,
        text=True,
        timeout=580,
        env={**os.environ, "PYTHONPATH": path, "KUBECONFIG": str(release.kubectl.kubeconfig)},
        check=False,
    )

    assert done.returncode == 0, done.stderr
    figures = {figure["name"]: figure for figure in json.loads(done.stdout)["figures"]}
    assert figures.keys() >= FIGURES
    numbers = [figure["value"] for figure in figures.values()]
    numbers += [floor for figure in figures.values() for floor in figure["floors"].values()]
    assert all(math.isfinite(number) for number in numbers)
    assert {name for name in FIGURES if not figures[name]["floors"]} == OWN_FLOOR
