"""A kubelet and a containerd that are restarted while a command runs: pods live on, and a cut command is told."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from mikan_cluster.commands import eventually
from mikan_cluster.installation import Installation
from mikan_cluster.terminal import Terminal
from mikan_dev.paths import cache_dir

Recovery = Callable[[str], AbstractContextManager[None]]

CONTAINERD = ("ctl.sh", "node", str(cache_dir() / "bin" / "ctr"), "version")
"""Fails until containerd answers."""


@pytest.mark.parametrize("daemons", [("kubelet",), ("containerd",), ("kubelet", "containerd")], ids="+".join)
def test_a_command_that_the_node_cuts_is_said_to_be_unknown_and_the_next_one_runs(
    installation: Installation, new_chat: Callable[[], Terminal], recovery: Recovery, daemons: tuple[str, ...]
) -> None:
    chat, fresh = new_chat(), new_chat()
    chat.say("run: echo before")
    restarts = installation.restarts()
    running = chat.send("run: sleep 100")
    running.wait_shown("sleep 100")

    installation.daemon("kill", *daemons)
    try:
        assert "What became of this call is unknown" in running.wait()
        following, first = chat.send("run: echo after"), fresh.send("run: echo first")
    finally:
        for daemon in reversed(daemons):
            installation.daemon("start", daemon)
            # A kubelet that finds no containerd ends, and nothing here would start it again.
            eventually("containerd", lambda: installation.cluster.run(*CONTAINERD))
    with recovery(f"{' and '.join(daemons)} killed: a command of a warm office"):
        assert "after" in following.wait()
    with recovery(f"{' and '.join(daemons)} killed: the first message of a new office"):
        assert "first" in first.wait(120)
    assert installation.restarts() == restarts
