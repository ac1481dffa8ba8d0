"""Where things are: the checkout, and the cache that outlives clusters (`MIKAN_CLUSTER_CACHE`)."""

from __future__ import annotations

from os import environ
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
CLUSTER_SCRIPTS = REPOSITORY / "tests" / "cluster"


def cache_dir() -> Path:
    """Cache of binaries, layers and images; the same as `tests/cluster/lib.sh` derives."""
    default = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mikan-cluster"
    return Path(environ.get("MIKAN_CLUSTER_CACHE") or default)


def state_dir() -> Path:
    """One cluster's data, keys and logs; gone when it is taken down."""
    return Path(environ.get("MIKAN_CLUSTER_STATE") or cache_dir() / "state")


def kubeconfig() -> Path:
    """Of the cluster under test; `make up` brings one up."""
    path = Path(environ.get("KUBECONFIG") or state_dir() / "admin.kubeconfig")
    assert path.exists(), f"no cluster: {path} does not exist; run make up"
    return path
