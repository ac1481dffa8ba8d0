"""An API server, or the etcd below it, that is away: awake offices go on, and what needs it waits and says so."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from mikan_cluster.installation import Installation
from mikan_cluster.terminal import Terminal

pytestmark = pytest.mark.timeout(420)

AWAY = 60.0
"""Seconds: long enough for every Lease to run out and for every back-off to have grown."""

Recovery = Callable[[str], AbstractContextManager[None]]


def test_a_minute_without_an_api_server_costs_no_chat_its_answer(
    installation: Installation, new_chat: Callable[[], Terminal], recovery: Recovery
) -> None:
    warm, commands, cut, fresh, later = (new_chat() for _ in range(5))
    warm.say("hello")
    commands.say("run: echo before")
    cut.say("run: echo before")
    restarts = installation.restarts()
    running = cut.send("run: sleep 100")
    running.wait_shown("sleep 100")

    installation.daemon("kill", "kube-apiserver")
    began = time.monotonic()
    try:
        assert "What became of this call is unknown" in running.wait()
        waiting, first = commands.send("run: echo during"), fresh.send("run: echo first")
        first.wait_taken(10)
        waiting.wait_shown("waiting for the sandbox: the Kubernetes API server can't be reached")
        first.wait_shown("the cluster cannot be reached")
        while time.monotonic() - began < AWAY:
            assert "scripted" in warm.say("hello", 20)
            time.sleep(3)

        assert installation.readyz("gateway")[0] == 200
        assert installation.fault("gateway", "lease").startswith("not renewed: ")
        assert installation.fault("gateway", "office-watch").startswith("listing offices: ")
        assert installation.metric("gateway", 'mikan_gateway_part_up{part="office-watch"}') == 0
        assert installation.readyz("operator")[0] == 503
        assert "leases/mikan-operator" in installation.fault("operator", "api server")
        assert installation.readyz("models")[0] == 200
        assert installation.fault("models", "offices").startswith("listing offices: ")
        assert (waiting.answered, first.answered) == (None, None)
    finally:
        installation.start_api_server()

    with recovery("API server away for 60 s: a command of a warm office"):
        assert "during" in waiting.wait()
    with recovery("API server away for 60 s: the first message of a new office"):
        assert "first" in first.wait(120)
    assert "after" in later.say("run: echo after")
    assert "after" in commands.say("run: echo after")
    installation.await_ready()
    assert installation.restarts() == restarts
    installation.release.await_condition(fresh.key, "True", "Running")


def test_a_killed_etcd_costs_no_chat_its_answer(
    installation: Installation, new_chat: Callable[[], Terminal], recovery: Recovery
) -> None:
    warm, commands, fresh = (new_chat() for _ in range(3))
    warm.say("hello")
    commands.say("run: echo before")
    running = commands.send("run: sleep 6; echo slept")
    running.wait_shown("sleep 6")

    installation.daemon("kill", "etcd")
    try:
        first = fresh.send("run: echo first")
        assert "scripted" in warm.say("hello", 20)
    finally:
        installation.daemon("start", "etcd")
    with recovery("etcd killed: the first message of a new office"):
        installation.await_api_server()
        assert "first" in first.wait(120)
    assert "slept" in running.wait()
    assert "after" in commands.say("run: echo after")
    installation.await_ready()
