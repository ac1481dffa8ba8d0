"""A gateway that takes firings, or answers what a test wants."""

from mikan_api.firings import Firing, FiringOutcome, FiringResult
from mikan_operator.exceptions import GatewayUnavailable


class PlayedGateway:
    """Knows delivery ids, as the real one does."""

    def __init__(self) -> None:
        self.away = False
        self.refusal: FiringResult | None = None
        self.asked: list[str] = []
        """Delivery ids, each time that one was sent and answered."""
        self.taken: list[Firing] = []

    async def deliver(self, firing: Firing) -> FiringResult:
        if self.away:
            raise GatewayUnavailable("the gateway does not answer")
        self.asked.append(firing.delivery_id)
        if self.refusal is not None:
            return self.refusal
        if firing.delivery_id in {known.delivery_id for known in self.taken}:
            return FiringResult(outcome=FiringOutcome.REPEATED)
        self.taken.append(firing)
        return FiringResult(outcome=FiringOutcome.QUEUED)
