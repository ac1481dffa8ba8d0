"""A model that repeats a failing call."""

import pytest

from mikan_agent.exceptions import RunawayLoop
from mikan_agent.harness.loop_guard import LoopGuard
from mikan_agent.messages import ToolCall


def call(command: str = "false", label: str = "") -> ToolCall:
    return ToolCall(id="1", name="bash", arguments={"command": command, "label": label})


def test_the_fourth_time_is_refused_and_the_seventh_ends_the_run() -> None:
    guard = LoopGuard()
    for number in range(3):
        assert guard.refusal(call(label=str(number))) is None
        guard.note(call(label=str(number)), failed=True)
    for _ in range(3):
        refusal = guard.refusal(call())
        assert refusal is not None
        assert refusal.startswith("Not carried out: this very call has failed 3 times.")
        guard.note(call(), failed=True)
    with pytest.raises(RunawayLoop, match="the call of bash failed 3 times and was still repeated"):
        guard.refusal(call())


def test_another_input_and_one_that_worked_count_anew() -> None:
    guard = LoopGuard()
    for _ in range(3):
        guard.note(call(), failed=True)
    assert guard.refusal(call("true")) is None
    guard.note(call(), failed=False)
    assert guard.refusal(call()) is None
