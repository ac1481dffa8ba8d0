"""Nothing is written while nothing happens."""

import time

import pytest

from mikan_cluster.release import Resting, audited_writes
from mikan_dev.paths import state_dir

WATCHED = 300
"""Seconds."""


@pytest.mark.timeout(WATCHED + 60)
def test_operator_gateway_and_models_write_nothing_at_rest(resting: Resting) -> None:
    time.sleep(max(0.0, resting.since + WATCHED - time.time()))
    release = resting.release

    writes = audited_writes(state_dir() / "log" / "audit.log", resting.since - WATCHED)

    ours = [w for w in writes if w["user"]["username"].startswith(f"system:serviceaccount:{release.namespace}:")]
    at_rest = [(w["verb"], w["requestURI"]) for w in ours if w["since_epoch"] >= resting.since]
    assert at_rest == []
    assert len(ours) > len(at_rest), "the audit log does not have what came before"
