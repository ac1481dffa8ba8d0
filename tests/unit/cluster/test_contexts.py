"""No context is changed that was not meant for it."""

from __future__ import annotations

import pytest

from mikan_dev.contexts import require_allowed
from mikan_dev.exceptions import ContextRefused


@pytest.mark.parametrize("context", ["kind-mikan", "minikube", "minikube-2", "k3d-test", "docker-desktop", "mikan-dev"])
def test_names_of_local_clusters_are_allowed_without_a_list(context: str) -> None:
    require_allowed(context, {})


@pytest.mark.parametrize("context", ["production", "my-kind-cluster", "gke_project_zone_name", "", "KIND-mikan"])
def test_any_other_name_is_refused(context: str) -> None:
    with pytest.raises(ContextRefused):
        require_allowed(context, {})


@pytest.mark.parametrize("listed", ["staging", "other,staging", "other staging", "staging,"])
def test_a_listed_name_is_allowed(listed: str) -> None:
    require_allowed("staging", {"MIKAN_ALLOWED_CONTEXTS": listed})


def test_a_listed_name_allows_no_longer_name() -> None:
    with pytest.raises(ContextRefused):
        require_allowed("staging-2", {"MIKAN_ALLOWED_CONTEXTS": "staging"})


def test_the_refusal_says_how_to_allow_it() -> None:
    with pytest.raises(ContextRefused, match="set MIKAN_ALLOWED_CONTEXTS=production "):
        require_allowed("production", {})
