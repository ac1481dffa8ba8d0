"""The helper's own tests and the checks of its language, so that one command runs everything."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "agent/sandbox"


@pytest.mark.parametrize("check", [("vet", "."), ("test", "-count=1", ".")], ids=["vet", "test"])
def test_the_helper_s_own_checks_pass(go: str, check: Sequence[str]) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run([go, *check], cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_told_to_end_it_says_so_with_its_exit_code(helper_binary: Path, tmp_path: Path) -> None:
    """With 0 its pod would have succeeded, and nobody would learn that it was evicted."""
    command = [str(helper_binary), "serve", "--vault", str(tmp_path), "--socket", f"@{tmp_path}"]
    with subprocess.Popen(command, env={"HOME": str(tmp_path)}) as helper:
        while not _listens(f"@{tmp_path}"):
            time.sleep(0.01)
        helper.send_signal(signal.SIGTERM)
        assert helper.wait(10) == 143


def _listens(socket: str) -> bool:
    """Whether somebody listens on a socket of the abstract namespace."""
    return f" {socket}\n" in Path("/proc/net/unix").read_text()
