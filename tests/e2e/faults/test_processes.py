"""The release's own processes, killed in the middle of a turn: it is finished, and shown once."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from mikan_cluster.installation import Installation
from mikan_cluster.terminal import Terminal

Recovery = Callable[[str], AbstractContextManager[None]]


def test_a_turn_outlives_the_gateway(
    installation: Installation, new_chat: Callable[[], Terminal], recovery: Recovery
) -> None:
    chat, fresh = new_chat(), new_chat()
    chat.say("run: echo before")
    running = chat.send("run: sleep 3; echo slept")
    running.wait_shown("sleep 3")

    installation.process("gateway").kill()
    with recovery("gateway killed: a message sent at once is taken"):
        following, first = chat.send("run: echo after"), fresh.send("run: echo first")
        following.wait_taken()

    assert "slept" in running.wait()
    assert "after" in following.wait()
    assert "first" in first.wait()


def test_a_new_office_waits_for_an_operator_that_was_killed(
    installation: Installation, new_chat: Callable[[], Terminal], recovery: Recovery
) -> None:
    chat, fresh = new_chat(), new_chat()
    chat.say("run: echo before")
    running = chat.send("run: sleep 3; echo slept")
    running.wait_shown("sleep 3")

    installation.process("operator").kill()
    with recovery("operator killed: the first message of a new office"):
        assert "first" in fresh.say("run: echo first")

    assert "slept" in running.wait()
    assert "after" in chat.say("run: echo after")


def test_an_answer_that_the_models_process_takes_with_it_is_asked_for_again_and_shown_once(
    installation: Installation, new_chat: Callable[[], Terminal], recovery: Recovery
) -> None:
    chat = new_chat()
    chat.say("hello")
    text = "one two three four five six"
    streaming = chat.send(f"slow 300: {text}")
    streaming.wait_shown("one")

    installation.process("models").kill()
    with recovery("models killed in the middle of an answer"):
        assert streaming.wait() == f"(scripted model) {text}"
    assert "after" in chat.say("run: echo after")
