"""How many agents are on their way at once: what a node can start in a second is little, and answers come first."""

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta

LARGE = 8
"""Agents that start at once before sandboxes wait for them."""
PATIENCE = timedelta(seconds=60)
"""An agent that takes longer has another trouble, which is no reason for anybody to wait."""
STARTED_A_SECOND = 50
"""More than any node starts."""
MAX_WAIT = 30.0


class Crowd:
    """The offices whose agents have been wanted for a while and are not Ready yet."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._since: dict[str, datetime] = {}
        """In the order of coming."""

    def note(self, office: str, *, starting: bool) -> None:
        """What is known of an office's agent now."""
        if starting:
            self._since.setdefault(office, self._clock())
        else:
            self.leave(office)

    def leave(self, office: str) -> None:
        """No agent is wanted any more, or it is there."""
        self._since.pop(office, None)

    @property
    def is_large(self) -> bool:
        """Whether sandboxes are to wait."""
        since = next(itertools.islice(reversed(self._since.values()), LARGE, None), None)
        return since is not None and self._clock() - since < PATIENCE

    @property
    def wait(self) -> float:
        """Seconds after which whoever waits should look again: not sooner than it can be smaller by much."""
        return min(MAX_WAIT, max(1.0, len(self._since) / STARTED_A_SECOND))
