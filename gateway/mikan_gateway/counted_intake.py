"""Counts and times what the intake takes."""

import time

from mikan_gateway.exceptions import UserFault
from mikan_gateway.metrics import Metrics
from mikan_gateway.ports import InboundMessage, Intake


class CountedIntake:
    """An `Intake` around another one."""

    def __init__(self, intake: Intake, metrics: Metrics) -> None:
        self._intake = intake
        self._metrics = metrics

    async def receive(self, message: InboundMessage) -> int | None:
        """As the intake within."""
        began = time.perf_counter()
        result = "failed"
        try:
            number = await self._intake.receive(message)
            result = "turned_away" if number is None else "accepted"
        except UserFault:
            result = "refused"
            raise
        finally:
            self._metrics.messages.labels(message.event.platform, result).inc()
        self._metrics.intake_seconds.observe(time.perf_counter() - began)
        return number

    async def refuse(self, message: InboundMessage, reason: str) -> None:
        """As the intake within."""
        await self._intake.refuse(message, reason)
