"""No script under test sees the machine's programs before the fakes, nor its cache or clusters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fake_programs import FakePrograms


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePrograms:
    (tmp_path / "bin").mkdir()
    settings = {
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(tmp_path),
        "MIKAN_CLUSTER_CACHE": str(tmp_path / "cache"),
        "MIKAN_CLUSTER_STATE": str(tmp_path / "state"),
    }
    for name in [name for name in os.environ if name.startswith(("MIKAN_", "KUBECONFIG"))]:
        monkeypatch.delenv(name)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return FakePrograms(tmp_path, settings)
