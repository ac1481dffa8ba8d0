"""What each office spent in the last hours, and the cap on it.

Counts live in this process's memory: a restart forgets them, and each replica counts alone. That is the price of a
process without a database; the provider's own account limit is the one that survives everything.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass

from mikan_api.identity import OfficeKey
from mikan_gateway.models.exceptions import CallRefused

BUCKET_SECONDS = 60.0
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Cap:
    """A most of ``usd`` in any ``hours``."""

    usd: float
    hours: int


class Spending:
    """A sliding window of cost per office, in buckets of a minute, so that its size is bounded by time."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Args: now: monotonic seconds."""
        self._now = now
        self._buckets: defaultdict[OfficeKey, deque[tuple[float, float]]] = defaultdict(deque)

    def add(self, office: OfficeKey, usd: float) -> None:
        """Count the cost of a call that ended."""
        if usd <= 0:
            return
        bucket = self._now() // BUCKET_SECONDS * BUCKET_SECONDS
        buckets = self._buckets[office]
        if buckets and buckets[-1][0] == bucket:
            usd += buckets.pop()[1]
        buckets.append((bucket, usd))

    def spent(self, office: OfficeKey, hours: int) -> float:
        """USD in the last ``hours``; what is older is forgotten."""
        buckets = self._buckets.get(office)
        if buckets is None:
            return 0.0
        oldest = self._now() - hours * HOUR
        while buckets and buckets[0][0] <= oldest:
            buckets.popleft()
        if not buckets:
            del self._buckets[office]
            return 0.0
        return sum(usd for _, usd in buckets)

    def check(self, office: OfficeKey, cap: Cap | None) -> None:
        """Refuse an office that reached its cap. Calls under way reserve nothing, so the last one may pass it.

        Raises:
            CallRefused: 402 ``office_cap_exceeded``.
        """
        if cap is None or self.spent(office, cap.hours) < cap.usd:
            return
        raise CallRefused(
            402,
            "insufficient_quota",
            "office_cap_exceeded",
            f"this conversation has spent its cap of {cap.usd:g} USD in {cap.hours} h for model calls; "
            "wait, or ask an admin to raise the cap",
        )
