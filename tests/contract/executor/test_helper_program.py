"""The helper's own tests and the checks of its language, so that one command runs everything."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "agent/sandbox"


@pytest.mark.parametrize("check", [("vet", "."), ("test", "-count=1", ".")], ids=["vet", "test"])
def test_the_helper_s_own_checks_pass(go: str, check: Sequence[str]) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run([go, *check], cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
