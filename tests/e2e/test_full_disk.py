"""A volume that is full: said in the chat, in ``/readyz`` and by the command; nothing that was accepted is lost."""

import subprocess
from collections.abc import Iterator

import pytest

from mikan_cluster.commands import eventually, run
from mikan_cluster.release import Chat, Release
from mikan_dev.paths import CLUSTER_SCRIPTS

FILL = "f = open('{path}/filler', 'wb')\nwhile True:\n    f.write(bytes(65536)); f.flush()\n"


def small_volume(release: Release, name: str, claim: str) -> None:
    """A volume of 16 MiB for a claim that the chart will make."""
    run([str(CLUSTER_SCRIPTS / "volumes.sh"), "small", "16m", name, claim])


@pytest.fixture
def cramped(own: Release) -> Iterator[Release]:
    """A release whose offices and state have 16 MiB each."""
    names = [f"{own.name}-offices-pv", f"{own.name}-state-pv"]
    small_volume(own, names[0], f"{own.offices}/{own.name}-offices")
    small_volume(own, names[1], f"{own.namespace}/{own.name}-state")
    own.install("--set", "storage.offices.size=8Mi", "--set", "storage.state.size=8Mi")
    yield own
    own.remove()
    for name in names:
        run([str(CLUSTER_SCRIPTS / "volumes.sh"), "remove", name])


def in_gateway(release: Release, code: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the gateway's pod."""
    return release.kubectl.exec(release.namespace, f"deployment/{release.name}-gateway", "python", "-c", code)


def test_a_full_offices_volume_is_told_in_the_chat_and_cured_by_making_room(cramped: Release) -> None:
    chat = Chat(cramped)
    assert "No space left" in chat.say("run: cat /dev/zero > filler; ls -l filler | cut -c1-10")

    full = chat.say("hello? " + 20_000 * "x")  # more than what is left of the session file's last block

    assert "full" in full.lower()
    freed = cramped.in_sandbox(chat.key, "rm", f"/workspace/{chat.key}/filler")
    assert freed.returncode == 0, freed.stderr
    assert "scripted" in chat.say("hello again")


def test_a_full_state_volume_refuses_messages_with_the_reason_and_loses_none(cramped: Release) -> None:
    chat = Chat(cramped)
    chat.say("run: echo before")
    assert "No space left" in in_gateway(cramped, FILL.format(path="/var/lib/mikan")).stderr

    sent = subprocess.run(
        chat.argv("run: echo while-full", 15),
        capture_output=True,
        text=True,
        timeout=90,
        env=chat.environment(),
        check=False,
    )
    ready = in_gateway(
        cramped,
        "import urllib.request, urllib.error\n"
        "try:\n    print(urllib.request.urlopen('http://127.0.0.1:8080/readyz').read().decode())\n"
        "except urllib.error.HTTPError as error:\n    print(error.code, error.read().decode())\n",
    ).stdout

    assert sent.returncode != 0
    assert "full" in (sent.stdout + sent.stderr).lower()
    assert ready.startswith("503")
    assert "full" in ready.lower()
    assert in_gateway(cramped, "import os; os.remove('/var/lib/mikan/filler')").returncode == 0
    assert "after" in eventually("an answer", lambda: chat.say("run: echo after", timeout=40), seconds=120)
