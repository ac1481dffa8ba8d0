"""Filling the cache, and starting without what a start needs: each failure says what to do next."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from fake_programs import FakePrograms
from mikan_dev.paths import CLUSTER_SCRIPTS


def wanted_version() -> str:
    found = re.search(r"^\tk8s\.io/kubernetes (v\S+)", (CLUSTER_SCRIPTS / "src/k8s/go.mod").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def archive(root: Path, version: str) -> Path:
    """An archive whose kubectl says that it is of a version."""
    program = root / "k8s-all"
    program.write_text(f"#!/bin/bash\necho Client Version: {version}\n")
    program.chmod(0o755)
    with tarfile.open(root / "bin.tar.xz", "w:xz") as tar:
        tar.add(program, "k8s-all")
    return root / "bin.tar.xz"


def test_an_archive_of_the_wanted_version_fills_the_cache_for_build(fakes: FakePrograms) -> None:
    assert fakes.run("unpack.sh", str(archive(fakes.root, wanted_version()))).returncode == 0
    assert fakes.bash("built_here && echo same").stdout == "same\n"


def test_an_archive_of_another_version_does_not_count_as_built(fakes: FakePrograms) -> None:
    done = fakes.run("unpack.sh", str(archive(fakes.root, "v1.0.0")))
    assert done.returncode == 1
    assert f"holds Kubernetes v1.0.0 and src/k8s/go.mod wants {wanted_version()}: run build.sh instead" in done.stderr
    assert fakes.bash("built_here || echo not built").stdout == "not built\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name an archive: unpack.sh ARCHIVE, or set MIKAN_CLUSTER_PREBUILT"),
        (["/nowhere.tar.xz"], "there is no /nowhere.tar.xz: run build.sh instead"),
    ],
)
def test_no_archive_is_an_error_that_names_the_way_out(fakes: FakePrograms, arguments: list[str], message: str) -> None:
    done = fakes.run("unpack.sh", *arguments)
    assert (done.returncode, message in done.stderr) == (1, True)


def test_the_archive_can_come_from_the_environment(fakes: FakePrograms) -> None:
    done = fakes.run("unpack.sh", MIKAN_CLUSTER_PREBUILT=str(archive(fakes.root, wanted_version())))
    assert done.returncode == 0


def test_build_refuses_a_binary_it_does_not_know(fakes: FakePrograms) -> None:
    done = fakes.run("build.sh", "kubelet")
    assert done.returncode == 1
    assert "no binary kubelet: k8s-all coredns netpol helm" in done.stderr


def test_build_makes_only_what_is_missing(fakes: FakePrograms) -> None:
    binaries = fakes.root / "cache" / "bin"
    binaries.mkdir(parents=True)
    for name in ("k8s-all", "coredns", "netpol", "containerd", "containerd-shim-runc-v2", "ctr", "pause"):
        (binaries / name).write_text("")
        (binaries / name).chmod(0o755)
    compiler = 'while [ "$1" != -o ]; do shift; done; echo x >"$2"; chmod +x "$2"'
    fakes.add("go", f"case $1 in env) echo go1.27;; list) echo v3.0.0;; build) {compiler};; esac")
    done = fakes.run("build.sh", "helm", "coredns")
    assert done.returncode == 0, done.stderr
    builds = [call for call in fakes.calls() if call.startswith("go build ")]
    assert [call.rsplit(" ", 1)[1] for call in builds] == ["helm.sh/helm/v3/cmd/helm"]
    assert (binaries / "helm").read_text() == "x\n"
    assert "binaries are up to date" in fakes.run("build.sh", "helm").stderr


def test_a_failed_build_leaves_no_half_binary_and_says_what_it_takes(fakes: FakePrograms) -> None:
    fakes.add("go", 'case $1 in env) echo go1.27;; list) echo v3.0.0;; *) echo "disk full" >&2; exit 1;; esac')
    done = fakes.run("build.sh", "helm")
    assert done.returncode == 1
    assert "disk full" in done.stderr
    assert "building helm failed" in done.stderr
    assert [file.name for file in (fakes.root / "cache" / "bin").iterdir()] == []


def test_up_without_binaries_says_to_build_them(fakes: FakePrograms) -> None:
    fakes.add("id", "echo 0")
    done = fakes.run("up.sh")
    assert done.returncode == 1
    assert f"{fakes.root}/cache/bin/k8s-all is missing: run {CLUSTER_SCRIPTS}/build.sh first" in done.stderr


def test_up_without_root_says_so(fakes: FakePrograms) -> None:
    fakes.add("id", "echo 1000")
    assert "a node needs root: run as root, or use Docker with kind" in fakes.run("up.sh").stderr


def test_missing_programs_are_named_by_their_packages(fakes: FakePrograms) -> None:
    done = fakes.bash('type() { [ "$2" != runc ] && [ "$2" != nft ]; }; missing_packages | xargs')
    assert done.stdout.split()[:2] == ["nftables", "runc"]
