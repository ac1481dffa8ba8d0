"""Which cluster is taken, and that `down` stops exactly what `up` started."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fake_programs import FakePrograms
from mikan_dev import cluster
from mikan_dev.exceptions import ContextRefused, DevError, NotUp
from mikan_dev.providers import KindCluster, NamedContext, OwnCluster

KIND = """case "$1 $2" in
    "get clusters") cat "$HOME/clusters" 2>/dev/null || true;;
    "create cluster") echo mikan >"$HOME/clusters";;
    "delete cluster") rm "$HOME/clusters";;
    "get kubeconfig") echo "kind's own";;
esac"""


@pytest.fixture
def kind(fakes: FakePrograms) -> FakePrograms:
    """Docker answers and kind is installed."""
    fakes.add("docker", "true")
    fakes.add("kind", KIND)
    return fakes


def changes(fakes: FakePrograms) -> list[str]:
    """Calls of kind that change something."""
    return [" ".join(call.split()[:3]) for call in fakes.calls() if call.startswith(("kind create", "kind delete"))]


def test_kind_is_taken_where_docker_answers(kind: FakePrograms) -> None:
    assert isinstance(cluster.choose({}), KindCluster)


def test_our_own_is_taken_where_docker_does_not_answer(fakes: FakePrograms) -> None:
    fakes.add("docker", "echo cannot connect >&2; exit 1")
    fakes.add("kind", KIND)
    assert isinstance(cluster.choose({}), OwnCluster)


def test_our_own_is_taken_where_docker_answers_and_kind_is_missing(
    fakes: FakePrograms, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.add("docker", "true")
    monkeypatch.setenv("PATH", f"{fakes.root}/bin:/bin")
    assert isinstance(cluster.choose({}), OwnCluster)
    assert "kind is not installed" in capsys.readouterr().err


def test_a_named_context_comes_first(kind: FakePrograms) -> None:
    provider = cluster.choose({"MIKAN_CONTEXT": "minikube"})
    assert isinstance(provider, NamedContext)
    assert kind.calls() == []


def test_a_named_context_that_is_not_on_the_list_is_refused_before_anything_is_called(kind: FakePrograms) -> None:
    kind.add("kubectl", "true")
    with pytest.raises(ContextRefused):
        cluster.up({"MIKAN_CONTEXT": "production"})
    assert kind.calls() == []


def test_a_provider_can_be_named(kind: FakePrograms) -> None:
    assert isinstance(cluster.choose({"MIKAN_CLUSTER_PROVIDER": "own"}), OwnCluster)
    with pytest.raises(DevError, match="MIKAN_CLUSTER_PROVIDER=podman is unknown: kind or own"):
        cluster.choose({"MIKAN_CLUSTER_PROVIDER": "podman"})


def test_what_up_created_is_deleted_by_down(kind: FakePrograms) -> None:
    cluster.up({})
    cluster.down()
    cluster.down()
    assert changes(kind) == ["kind create cluster", "kind delete cluster"]


def test_what_ran_before_up_is_left_running_by_down(kind: FakePrograms) -> None:
    (kind.root / "clusters").write_text("other\nmikan\n")
    cluster.up({})
    cluster.down()
    assert changes(kind) == []


def test_up_twice_still_counts_as_started(kind: FakePrograms) -> None:
    cluster.up({})
    cluster.up({})
    cluster.down()
    assert changes(kind) == ["kind create cluster", "kind delete cluster"]


def test_a_start_that_fails_half_way_is_still_downs_to_clean_up(kind: FakePrograms) -> None:
    kind.add("kind", KIND.replace('echo mikan >"$HOME/clusters"', 'echo mikan >"$HOME/clusters"; exit 1'))
    with pytest.raises(DevError):
        cluster.up({})
    cluster.down()
    assert changes(kind) == ["kind create cluster", "kind delete cluster"]


def test_down_follows_the_record_and_not_the_environment(kind: FakePrograms) -> None:
    cluster.up({})
    kind.add("docker", "exit 1")
    cluster.down()
    assert changes(kind) == ["kind create cluster", "kind delete cluster"]


def test_another_cluster_is_not_started_over_one_that_down_must_stop(kind: FakePrograms) -> None:
    cluster.up({})
    with pytest.raises(DevError, match=r"started another cluster before \(kind\): run `down` first"):
        cluster.up({"MIKAN_CLUSTER_PROVIDER": "own"})


def test_the_kubeconfig_is_a_private_file_apart_from_the_users(kind: FakePrograms) -> None:
    kubeconfig = cluster.up({})
    assert kubeconfig == kind.root / "state.kubeconfig"
    assert kubeconfig.read_text() == "kind's own\n"
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    cluster.down()
    assert not Path(kubeconfig).exists()


def test_a_context_that_does_not_answer_says_so(fakes: FakePrograms) -> None:
    fakes.add("kubectl", "exit 1")
    with pytest.raises(NotUp, match="context 'minikube' does not answer: start that cluster, or unset MIKAN_CONTEXT"):
        cluster.up({"MIKAN_CONTEXT": "minikube"})


def test_a_named_context_is_never_stopped(fakes: FakePrograms) -> None:
    fakes.add("kubectl", "true")
    cluster.up({"MIKAN_CONTEXT": "minikube"})
    cluster.down()
    assert [call for call in fakes.calls() if not call.startswith("kubectl ")] == []


def test_images_reach_a_named_context_by_its_own_tool(fakes: FakePrograms) -> None:
    for program in ("docker", "minikube"):
        fakes.add(program, "true")
    NamedContext("minikube", {}).load(["agent"])
    assert fakes.calls()[-1] == "minikube image load --profile minikube localhost/mikan-agent:dev"


def test_images_cannot_be_copied_into_an_unknown_kind_of_cluster(fakes: FakePrograms) -> None:
    with pytest.raises(DevError, match="push them to a registry that it reads and set the chart's image values"):
        NamedContext("staging", {"MIKAN_ALLOWED_CONTEXTS": "staging"}).load(["agent"])


def test_status_says_whether_the_cluster_that_up_would_take_runs(kind: FakePrograms) -> None:
    before = cluster.status({})
    cluster.up({})
    assert (before, cluster.status({})) == ("down", "up")


def test_without_up_there_is_nothing_to_load_into(fakes: FakePrograms) -> None:
    with pytest.raises(NotUp, match="no cluster was brought up"):
        cluster.main(["load", "agent"])
