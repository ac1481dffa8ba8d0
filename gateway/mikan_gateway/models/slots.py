"""How many calls may be under way at once, per office and in all."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from mikan_api.identity import OfficeKey
from mikan_gateway.models.config import Limits
from mikan_gateway.models.exceptions import CallRefused


class Slots:
    """Counts calls under way. Nobody waits here: who is over gets 429 and tries again, as with any provider."""

    def __init__(self) -> None:
        self._offices: Counter[OfficeKey] = Counter()

    @property
    def taken(self) -> int:
        """Calls under way, of all offices."""
        return self._offices.total()

    @contextmanager
    def hold(self, office: OfficeKey, limits: Limits) -> Iterator[None]:
        """Hold a slot.

        Raises:
            CallRefused: 429 ``too_many_calls``.
        """
        if self._offices[office] >= limits.calls_per_office:
            raise _too_many(f"this office already has {limits.calls_per_office} model calls under way")
        if self.taken >= limits.calls:
            raise _too_many("all slots for model calls are taken")
        self._offices[office] += 1
        try:
            yield
        finally:
            self._offices[office] -= 1
            if not self._offices[office]:
                del self._offices[office]


def _too_many(message: str) -> CallRefused:
    return CallRefused(429, "rate_limit_error", "too_many_calls", f"{message}; try again in a moment", "1")
