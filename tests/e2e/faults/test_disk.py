"""Disks that fill up, besides the offices' own (`tests/e2e/test_full_disk.py`): said by who notices, and no more."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from mikan_api import names
from mikan_cluster.commands import eventually
from mikan_cluster.installation import Installation
from mikan_cluster.release import Release
from mikan_cluster.terminal import Sent, Terminal, Terminals

Recovery = Callable[[str], AbstractContextManager[None]]

NO_SPACE = "no space left"
FILL_STATE = """
import sqlite3
database = sqlite3.connect("/var/lib/mikan/mikan.db", timeout=60)
with database:
    database.execute("CREATE TABLE IF NOT EXISTS filler (data)")
try:
    with open("/var/lib/mikan/filler", "wb") as filler:
        while True:
            filler.write(bytes(65536))
            filler.flush()
except OSError as error:
    print(error)
# What the database has for itself already, as in any that has run for a while: its log is used again and again.
try:
    while True:
        with database:
            database.execute("INSERT INTO filler VALUES (zeroblob(4096))")
except sqlite3.OperationalError as error:
    print(error)
"""
EMPTY_STATE = """
import os, sqlite3
os.remove("/var/lib/mikan/filler")
sqlite3.connect("/var/lib/mikan/mikan.db", timeout=60).execute("DROP TABLE IF EXISTS filler")
"""


def set_spec(release: Release, chat: Terminal, **spec: object) -> None:
    """Change an Office, as an admin would, and wait until pods with that are there."""
    before = release.kubectl.get("pod", names.sandbox_pod(chat.key), "-n", release.offices)["metadata"]["uid"]
    patch = json.dumps({"spec": spec})
    release.kubectl("patch", "office", chat.key, "-n", release.offices, "--type=merge", "-p", patch)

    def renewed() -> bool:
        pod = release.kubectl.get("pod", names.sandbox_pod(chat.key), "-n", release.offices)
        return bool(pod["metadata"]["uid"] != before)

    eventually("another sandbox pod", renewed)


@pytest.fixture(scope="module")
def overflowing(release: Release, terminals: Terminals) -> Iterator[tuple[Terminal, Sent]]:
    """A command that writes more than its sandbox may. The kubelet looks only now and then, so it is begun early."""
    chat = terminals.new()
    chat.say("run: echo before")
    set_spec(release, chat, sandbox={"resources": {"ephemeralStorageLimit": "48Mi"}})
    yield chat, chat.send("run: head -c 100M /dev/zero > /tmp/filler; sleep 300")
    chat.close()


@pytest.mark.usefixtures("overflowing")
def test_a_full_shared_volume_is_told_by_what_writes_there_and_chats_go_on(
    installation: Installation, new_chat: Callable[[], Terminal]
) -> None:
    chat = new_chat()
    chat.say("run: echo before")
    set_spec(installation.release, chat, doorPolicy={"trust": "trusted", "layout": "shared-support"})

    assert NO_SPACE in chat.say("run: cat /dev/zero > /workspace/skills/filler").lower()
    assert NO_SPACE in chat.say("write /workspace/MEMORY.md: remember this").lower()
    assert "scripted" in chat.say("hello")
    chat.say("run: rm /workspace/skills/filler")
    assert NO_SPACE not in chat.say("write /workspace/MEMORY.md: remember this").lower()
    assert "remember this" in chat.say("read /workspace/MEMORY.md")


@contextmanager
def full_state(installation: Installation) -> Iterator[None]:
    """No room on the gateway's volume."""
    release = installation.release

    def in_gateway(code: str) -> str:
        done = release.kubectl.exec(release.namespace, f"deployment/{release.name}-gateway", "python", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        filled = in_gateway(FILL_STATE)
        assert (NO_SPACE in filled.lower(), "database or disk is full" in filled) == (True, True), filled
        yield
    finally:
        in_gateway(EMPTY_STATE)


@pytest.mark.usefixtures("overflowing")
def test_a_turn_that_ends_while_the_state_volume_is_full_is_shown_once_there_is_room(
    installation: Installation, new_chat: Callable[[], Terminal], recovery: Recovery
) -> None:
    chat = new_chat()
    chat.say("run: echo before")

    def ended() -> int:
        log = installation.release.kubectl("logs", "-n", installation.release.offices, names.agent_pod(chat.key))
        return log.count('"run over"')

    before = ended()
    running = chat.send("run: sleep 5; echo slept")
    running.wait_shown("sleep 5")
    with full_state(installation):
        eventually("the turn to end", lambda: ended() > before)
        eventually("503", lambda: installation.readyz("gateway")[0] == 503)
        assert "is full" in installation.fault("gateway", "database")
        assert running.answered is None
    with recovery("state volume full: the turn's answer, once there is room"):
        assert "slept" in running.wait()


@pytest.mark.usefixtures("overflowing")
def test_a_file_that_the_spool_has_no_room_for_is_an_error_of_its_tool(
    installation: Installation, new_chat: Callable[[], Terminal]
) -> None:
    chat = new_chat()
    chat.say("run: head -c 60M /dev/urandom > big")

    assert "is full" in chat.say("attach big")
    assert "after" in chat.say("run: echo after")
    installation.await_ready()


def test_a_sandbox_over_its_disk_limit_is_made_anew_and_the_event_says_why(
    installation: Installation, overflowing: tuple[Terminal, Sent]
) -> None:
    chat, running = overflowing

    assert "What became of this call is unknown" in running.wait(240)
    assert "after" in chat.say("run: ls /tmp; echo after")
    texts = [text for reason, text in installation.events(chat.key) if reason == "PodFailed"]
    assert any("Evicted: Pod ephemeral local storage usage exceeds" in text for text in texts), texts
