"""A network that is cut between an agent and the gateway, for longer than both wait for a sign of life, and healed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from mikan_api import names
from mikan_cluster.installation import Installation
from mikan_cluster.terminal import Terminal

Recovery = Callable[[str], AbstractContextManager[None]]


@contextmanager
def cut(installation: Installation, one: str, other: str) -> Iterator[None]:
    """No packet passes between two pods' addresses."""
    ways = ((one, other), (other, one))

    def each(operation: str) -> None:
        for source, target in ways:
            rule = ("-t", "mangle", operation, "FORWARD", "-s", source, "-d", target, "-j", "DROP")
            installation.cluster.run("ctl.sh", "net", "iptables", "-w", *rule)

    each("-I")
    try:
        yield
    finally:
        each("-D")


def test_a_turn_is_finished_and_shown_once_after_a_cut(
    installation: Installation, new_chat: Callable[[], Terminal], recovery: Recovery
) -> None:
    chat, other = new_chat(), new_chat()
    chat.say("run: echo before")
    other.say("hello")
    release = installation.release
    agent = installation.pod(names.agent_pod(chat.key))["status"]["podIP"]
    (gateway,) = release.kubectl.get("pods", "-n", release.namespace, "-l", "app.kubernetes.io/component=gateway")
    running = chat.send("run: sleep 5; echo slept")
    running.wait_shown("sleep 5")

    with cut(installation, agent, gateway["status"]["podIP"]):
        following = chat.send("run: echo after")
        # Noticed by a ping without an answer (10 and 15 s), and said when it lasts (10 s).
        running.wait_shown("the agent that works on this can't be reached", 90)
        assert "scripted" in other.say("hello")
        assert (running.answered, following.answered) == (None, None)
    with recovery("network cut between agent and gateway: the turn's answer"):
        assert "slept" in running.wait()
    assert "after" in following.wait()
