"""``python -m mikan_gateway.packages``: what ``kubectl exec`` runs in the gateway's pod."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from git_server import GitServer

ACTIVATE = "def activate(api): ...\n"


def run(volume: Path, *arguments: str, stdin: bytes = b"", loopback: str = "1") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "MIKAN_PACKAGES_DIR": str(volume), "MIKAN_PACKAGES_LOOPBACK": loopback}
    argv = [sys.executable, "-m", "mikan_gateway.packages", *arguments]
    return subprocess.run(argv, input=stdin, capture_output=True, check=False, env=environment)


def test_it_prints_one_json_document(server: GitServer, volume: Path) -> None:
    commit = server.repository().commit({"extension.py": ACTIVATE})

    for verb in ("install", "status", "update"):
        done = run(volume, verb, server.source())
        assert (done.returncode, done.stderr) == (0, b"")
        assert json.loads(done.stdout) == [
            {
                "source": server.source(),
                "slug": "tools",
                "commit": commit,
                "secret": "mikan-extension-tools",
                "extensions": ["tools"],
                "skills": [],
                "fault": "",
            }
        ]


def test_several_at_once_do_not_meet(server: GitServer, volume: Path) -> None:
    commit = server.repository().commit({"extension.py": ACTIVATE})
    environment = {**os.environ, "MIKAN_PACKAGES_DIR": str(volume), "MIKAN_PACKAGES_LOOPBACK": "1"}
    argv = [sys.executable, "-m", "mikan_gateway.packages", "update", server.source()]
    running = [subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment) for _ in range(4)]

    said = [json.loads(process.communicate()[0])[0] for process in running]
    assert [one["commit"] for one in said] == [commit] * 4
    (tree,) = (volume / "checkouts" / ".trees").iterdir()
    assert os.listdir(tree) == ["extension.py"]


def test_a_directory_is_put_by_a_tar_on_standard_input(volume: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("extension.py")
        info.size = len(ACTIVATE)
        tar.addfile(info, io.BytesIO(ACTIVATE.encode()))
    done = run(volume, "put", "/mikan/packages/local/board", stdin=buffer.getvalue())

    assert json.loads(done.stdout)[0]["extensions"] == ["board"]
    assert (volume / "local" / "board" / "extension.py").read_text() == ACTIVATE


@pytest.mark.parametrize(
    ("arguments", "loopback", "fault"),
    [
        (("install", "github:acme"), "1", "a GitHub package is github:<owner>/<repository>\n"),
        (("put", "github:acme/board"), "1", "a directory can be put below /mikan/packages/local only\n"),
        (("install", "http://127.0.0.1:9/a.git"), "", "fatal: transport 'http' not allowed\n"),
        (("install", "/mikan/packages/local/gone"), "1", "/mikan/packages/local/gone: not there\n"),
    ],
)
def test_what_fails_is_one_line_and_code_1(volume: Path, arguments: tuple[str, ...], loopback: str, fault: str) -> None:
    done = run(volume, *arguments, loopback=loopback)

    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", fault)


def test_a_gateway_without_the_volume_says_what_to_set(tmp_path: Path) -> None:
    done = run(tmp_path / "none", "status")

    assert done.returncode == 1
    assert done.stderr.decode() == (
        "the gateway has no packages volume; set packages.gatewayClaim in the chart's values\n"
    )


def test_a_wrong_command_line_is_code_2(volume: Path) -> None:
    assert run(volume, "instal", "github:acme/board").returncode == 2
