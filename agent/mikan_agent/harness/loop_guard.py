"""Notices a model that makes the same failing tool call again and again, before it has spent a budget on it."""

import json
from collections import Counter

from mikan_agent.exceptions import RunawayLoop
from mikan_agent.messages import ToolCall

MAX_FAILURES = 3
"""Times that one call may fail before it is no longer carried out."""
MAX_REFUSALS = 3
"""Times that it is asked for all the same before the run ends."""


class LoopGuard:
    """The failing calls of one run."""

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()

    def refusal(self, call: ToolCall) -> str | None:
        """Why a call is not carried out; ``None``: it may be.

        Raises:
            RunawayLoop: it was refused often enough.
        """
        failures = self._failures[_identity(call)]
        if failures < MAX_FAILURES:
            return None
        if failures >= MAX_FAILURES + MAX_REFUSALS:
            raise RunawayLoop(f"the call of {call.name} failed {MAX_FAILURES} times and was still repeated")
        return (
            f"Not carried out: this very call has failed {MAX_FAILURES} times. Find out why it fails and do something "
            "else; if there is nothing else to do, answer and say what is in the way."
        )

    def note(self, call: ToolCall, failed: bool) -> None:
        """How a call went, refused ones included."""
        if failed:
            self._failures[_identity(call)] += 1
        else:
            self._failures.pop(_identity(call), None)


def _identity(call: ToolCall) -> str:
    arguments = {name: value for name, value in call.arguments.items() if name != "label"}
    return f"{call.name} {json.dumps(arguments, sort_keys=True)}"
