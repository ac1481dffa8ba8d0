"""Whatever goes first, nothing hangs in Terminating."""

import secrets
from collections.abc import Iterator

import pytest

from mikan_cluster.commands import Helm, Kubectl, eventually
from mikan_cluster.release import Chat, Release


@pytest.fixture
def own(kubectl: Kubectl, helm: Helm) -> Iterator[Release]:
    """A release of the test's own, with one office that runs."""
    name = f"del-{secrets.token_hex(3)}"
    release = Release(kubectl, helm, name=name, namespace=name)
    release.install()
    yield release
    helm("uninstall", name, "--namespace", name, "--ignore-not-found", "--wait")
    kubectl("delete", "namespace", name, release.offices, "--ignore-not-found", "--timeout=90s")


def test_deleting_an_office_removes_its_pods(release: Release, chat: Chat) -> None:
    chat.say("run: true")
    assert len(release.pods(chat.key)) == 2

    release.kubectl("delete", "office", chat.key, "-n", release.offices, "--timeout=60s")

    eventually("its pods are gone", lambda: release.pods(chat.key) == [])
    for kind in ("serviceaccount", "role", "rolebinding", "secret"):
        left = release.kubectl.names(kind, "-n", release.offices)
        eventually(
            f"no {kind} is left",
            lambda left=left, kind=kind: (
                not [n for n in release.kubectl.names(kind, "-n", release.offices) if chat.key in n]
            ),
        )


def test_deleting_the_offices_namespace_finishes(own: Release) -> None:
    Chat(own).say("run: true")

    own.kubectl("delete", "namespace", own.offices, "--timeout=90s")


def test_uninstalling_the_chart_first_and_deleting_the_objects_later_finishes(own: Release) -> None:
    chat = Chat(own)
    chat.say("run: true")

    own.uninstall()
    assert own.kubectl.names("offices", "-n", own.offices) == [chat.key]
    own.kubectl("delete", "offices", "--all", "-n", own.offices, "--timeout=60s")

    eventually("its pods are gone", lambda: own.pods(chat.key) == [])
    own.kubectl("delete", "namespace", own.offices, "--timeout=90s")
