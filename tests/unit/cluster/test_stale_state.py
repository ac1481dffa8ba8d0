"""What a machine or a session that died left behind neither stops the next start nor costs another process its life."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from fake_programs import FakePrograms


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that was given a remembered number later."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def leave_behind(fakes: FakePrograms, pid: int, started: str) -> None:
    state = fakes.root / "state"
    (state / "pki").mkdir(parents=True)
    for name in ("unshare", "forward"):
        (state / f"{name}.pid").write_text(f"{pid}\n")
        (state / f"{name}.started").write_text(f"{started}\n")


def test_a_remembered_process_is_known_by_its_start_time(fakes: FakePrograms) -> None:
    (fakes.root / "state").mkdir()
    done = fakes.bash(f"remember unshare {os.getpid()}; remembered unshare")
    assert done.stdout == f"{os.getpid()}\n"


def test_a_process_with_the_same_number_and_another_start_time_is_not_it(fakes: FakePrograms) -> None:
    leave_behind(fakes, os.getpid(), "1")
    assert fakes.bash("remembered unshare || echo gone").stdout == "gone\n"


def test_a_process_that_is_gone_is_not_remembered(fakes: FakePrograms) -> None:
    leave_behind(fakes, 2**22 + 1, "1")
    assert fakes.bash("remembered unshare || echo gone").stdout == "gone\n"


def test_down_removes_a_stale_state_and_spares_who_has_its_numbers_now(
    fakes: FakePrograms, bystander: subprocess.Popen[bytes]
) -> None:
    leave_behind(fakes, bystander.pid, "1")
    assert fakes.run("down.sh").returncode == 0
    assert not (fakes.root / "state").exists()
    assert bystander.poll() is None


def test_down_twice_is_as_good_as_once(fakes: FakePrograms) -> None:
    assert [fakes.run("down.sh").returncode for _ in range(2)] == [0, 0]


def test_keep_keeps_the_logs_and_forgets_the_processes(fakes: FakePrograms) -> None:
    leave_behind(fakes, 2**22 + 1, "1")
    assert fakes.run("down.sh", "--keep").returncode == 0
    assert [file.name for file in (fakes.root / "state").iterdir()] == ["pki"]


def test_two_states_have_two_cgroups(fakes: FakePrograms) -> None:
    one = fakes.bash('echo "$CGROUP"').stdout
    fakes.environment["MIKAN_CLUSTER_STATE"] = str(fakes.root / "another")
    other = fakes.bash('echo "$CGROUP"').stdout
    assert one.startswith("mikan-")
    assert one != other


def test_the_cgroup_can_be_named(fakes: FakePrograms) -> None:
    fakes.environment["MIKAN_CLUSTER_CGROUP"] = "mikan-ci"
    assert fakes.bash('echo "$CGROUP"').stdout == "mikan-ci\n"


def test_reaching_into_a_cluster_that_is_down_says_how_to_start_it(fakes: FakePrograms) -> None:
    done = fakes.run("ctl.sh", "node", "true")
    assert done.returncode == 1
    assert f"the cluster in {fakes.root}/state is not up: run " in done.stderr
