"""The time that a prompt tells: it stands still while messages follow each other closely.

A provider keeps what it has read of a conversation for some minutes, up to the first change of the prompt. A time that
is another in every prompt would have it read the whole conversation anew with every message.
"""

from datetime import datetime, timedelta

KEPT = timedelta(minutes=5)
"""After this long without a call providers have forgotten the prompt anyway."""
LONGEST = timedelta(minutes=15)
"""How wrong the time may be."""


class SteadyTime:
    """The time for the prompts of one session."""

    def __init__(self) -> None:
        self._told: datetime | None = None
        self._asked: datetime | None = None

    def tell(self, now: datetime) -> datetime:
        """The time to tell now: the same as before, if that does no harm."""
        asked, self._asked = self._asked, now
        if asked is None or self._told is None or now - asked > KEPT or not timedelta(0) <= now - self._told <= LONGEST:
            self._told = now
        return self._told
