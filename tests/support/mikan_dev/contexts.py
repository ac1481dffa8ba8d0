"""Which Kubernetes contexts the development tools may change: never one that was not meant for it."""

from __future__ import annotations

from collections.abc import Mapping

from mikan_dev.exceptions import ContextRefused

PREFIXES = ("docker-desktop", "k3d-", "kind-", "mikan-dev", "minikube")
"""Beginnings of the names that local clusters give their contexts."""


def require_allowed(context: str, environment: Mapping[str, str]) -> None:
    """Refuse a context that neither looks like a local cluster's nor is listed in `MIKAN_ALLOWED_CONTEXTS`.

    Raises:
        ContextRefused: Tests would install, break and delete things there without its owner having said so.
    """
    listed = environment.get("MIKAN_ALLOWED_CONTEXTS", "").replace(",", " ").split()
    if context in listed or context.startswith(PREFIXES):
        return
    raise ContextRefused(
        f"context {context!r} is not on the allow-list: tests install and delete things there. "
        f"If that is what you want, set MIKAN_ALLOWED_CONTEXTS={context} (names that begin with "
        f"{', '.join(PREFIXES)} need no listing)"
    )
