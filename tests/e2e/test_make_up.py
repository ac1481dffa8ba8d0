"""``make up`` as the README promises it, on the cluster that is up already."""

import subprocess
from collections.abc import Iterator

import pytest

from mikan_cluster.commands import Helm, Kubectl
from mikan_cluster.release import REPOSITORY, Release


@pytest.fixture
def mikan(kubectl: Kubectl, helm: Helm) -> Iterator[Release]:
    """The release that it makes; removed afterwards, unless somebody works with it."""
    release = Release(kubectl, helm, name="mikan", namespace="mikan")
    was_there = "mikan" in helm("list", "--namespace", "mikan", "--short").split()
    yield release
    if not was_there:
        release.remove()


def test_make_up_ends_with_an_answer_from_a_sandbox_pod_and_the_list_of_offices(mikan: Release) -> None:
    done = subprocess.run(["make", "up"], cwd=REPOSITORY, capture_output=True, text=True, timeout=400, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    key = mikan.office_key("hello")
    assert "(scripted model)" in done.stdout
    assert "a sandbox pod" in done.stdout
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith(key)]
    assert row[1:3] == ["console", "hello"]
    assert row[5:7] == ["True", "Running"]
