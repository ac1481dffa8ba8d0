"""Whatever goes first, nothing hangs in Terminating."""

import pytest

from mikan_api import names
from mikan_cluster.commands import eventually, run
from mikan_cluster.release import Chat, Release
from mikan_dev.paths import CLUSTER_SCRIPTS


@pytest.fixture
def installed(own: Release) -> Release:
    """A release of the test's own that runs."""
    own.install()
    return own


def test_deleting_an_office_removes_its_pods(release: Release, chat: Chat) -> None:
    chat.say("run: true")
    assert len(release.pods(chat.key)) == 2

    release.kubectl("delete", "office", chat.key, "-n", release.offices, "--timeout=60s")

    eventually("its pods are gone", lambda: release.pods(chat.key) == [])
    for kind in ("serviceaccount", "role", "rolebinding", "secret"):

        def left(kind: str = kind) -> list[str]:
            return [n for n in release.kubectl.names(kind, "-n", release.offices) if chat.key in n]

        eventually(f"no {kind} is left", lambda left=left: left() == [])


def test_deleting_the_offices_namespace_finishes(installed: Release) -> None:
    Chat(installed).say("run: true")

    installed.kubectl("delete", "namespace", installed.offices, "--timeout=90s")


def test_uninstalling_the_chart_first_and_deleting_the_objects_later_finishes(installed: Release) -> None:
    chat = Chat(installed)
    chat.say("run: true")

    installed.uninstall()
    assert installed.kubectl.names("offices", "-n", installed.offices) == [chat.key]
    installed.kubectl("delete", "offices", "--all", "-n", installed.offices, "--timeout=60s")

    eventually("its pods are gone", lambda: installed.pods(chat.key) == [])
    installed.kubectl("delete", "namespace", installed.offices, "--timeout=90s")


def test_an_office_that_is_to_be_deleted_with_its_data_does_not_hang_without_the_operator(installed: Release) -> None:
    chat = Chat(installed)
    chat.say("run: true")
    installed.kubectl(
        "patch",
        "office",
        chat.key,
        "-n",
        installed.offices,
        "--type=merge",
        "-p",
        '{"spec":{"dataRetention":"Delete"}}',
    )
    eventually("the finalizer", lambda: installed.office(chat.key)["metadata"].get("finalizers") == [names.FINALIZER])

    installed.uninstall()

    installed.kubectl("delete", "office", chat.key, "-n", installed.offices, "--timeout=30s")


def test_an_office_deleted_with_its_data_leaves_no_file(release: Release, chat: Chat) -> None:
    other = Chat(release)
    chat.say("run: echo x > kept.txt")
    other.say("run: echo x > gone.txt")
    release.kubectl(
        "patch", "office", other.key, "-n", release.offices, "--type=merge", "-p", '{"spec":{"dataRetention":"Delete"}}'
    )
    eventually("the finalizer", lambda: release.office(other.key)["metadata"].get("finalizers") == [names.FINALIZER])

    release.kubectl("delete", "office", other.key, "-n", release.offices, "--timeout=90s")

    claim = release.kubectl.get("pvc", f"{release.name}-offices", "-n", release.offices)
    volume = release.kubectl.get("pv", claim["spec"]["volumeName"])["spec"]["local"]["path"]
    found = run([str(CLUSTER_SCRIPTS / "ctl.sh"), "node", "ls", f"{volume}/offices", f"{volume}/records"])
    assert other.key not in found
    assert found.count(chat.key) == 2
