"""Which tool calls run at the same time."""

import pytest

from mikan_agent.harness.turn import _groups
from mikan_agent.messages import ToolCall


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        ("", []),
        ("b", ["b"]),
        ("rr", ["rr"]),
        ("rbr", ["r", "b", "r"]),
        ("rrbbrr", ["rr", "b", "b", "rr"]),
        ("rrrrrr", ["rrrr", "rr"]),
    ],
)
def test_neighbours_that_change_nothing_run_together_four_at_most(names: str, groups: list[str]) -> None:
    calls = [ToolCall(id=str(number), name=name) for number, name in enumerate(names)]
    assert ["".join(call.name for call in group) for group in _groups(calls, lambda c: c.name == "r")] == groups
