"""Pods and processes of an office that are killed in the middle of a turn: one honest word, and on with the next."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from mikan_api import names
from mikan_api.identity import OfficeKey
from mikan_cluster.installation import Installation
from mikan_cluster.terminal import Terminal

CUT_OFF = "I was interrupted while working on this, and I won't repeat it by myself. Please ask again if you need it."
UNKNOWN = "What became of this call is unknown"

Recovery = Callable[[str], AbstractContextManager[None]]


def test_a_turn_whose_pods_are_killed_ends_with_one_word_and_the_next_message_is_answered(
    installation: Installation, new_chat: Callable[[], Terminal], recovery: Recovery
) -> None:
    def deleted(*pod_of: Callable[[OfficeKey], str]) -> Callable[[OfficeKey], None]:
        return lambda key: installation.delete_now(*(pod(key) for pod in pod_of))

    faults: Mapping[str, tuple[Callable[[OfficeKey], None], tuple[str, ...]]] = {
        "agent's pod deleted": (deleted(names.agent_pod), (CUT_OFF,)),
        "agent's process killed": (lambda key: installation.agent(key).kill(), (CUT_OFF,)),
        "sandbox's pod deleted": (deleted(names.sandbox_pod), (UNKNOWN,)),
        "sandbox's first process killed": (lambda key: installation.helper(key).kill(), (UNKNOWN,)),
        # Which of the two the turn notices first is open.
        "both pods deleted": (deleted(names.agent_pod, names.sandbox_pod), (CUT_OFF, UNKNOWN)),
    }
    for what, (strike, words) in faults.items():
        chat = new_chat()
        chat.say("run: echo before")
        running = chat.send("run: sleep 100")
        running.wait_shown("sleep 100")

        strike(chat.key)
        with recovery(what):
            following = chat.send("run: echo after")
            answer = running.wait()
            assert any(word in answer for word in words), f"{what}: {answer}"
            assert "after" in following.wait(), what
        installation.release.await_condition(chat.key, "True", "Running")
        assert len(installation.release.pods(chat.key)) == 2
