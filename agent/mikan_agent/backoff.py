"""How long to wait before another try."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential with jitter: the wait before retry ``n`` (from 0) lies between half and the whole of its step."""

    base: float
    """Seconds of the first step."""
    cap: float
    factor: float = 2.0

    def delay(self, attempt: int) -> float:
        """Seconds to wait before retry ``attempt``."""
        # A bounded exponent: a process may retry for weeks.
        step = min(self.cap, self.base * self.factor ** min(attempt, 64))
        return step * (0.5 + random.random() / 2)  # noqa: S311  spreads load, guards nothing
