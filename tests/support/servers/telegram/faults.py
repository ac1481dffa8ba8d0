"""Faults that a test orders: what a network and an overloaded server do."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Literal

Kind = Literal["drop", "cut", "error", "garbage", "unparsable", "expired"]
"""``drop``: applied, but the answer is lost. ``cut``: lost before it was applied. ``error``: HTTP 500 in the API's
form. ``garbage``: HTTP 502 with a proxy's page. ``unparsable``: entities are refused, if there may be any.
``expired``: a link to a file holds no longer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault."""

    kind: Kind | None = None
    until: asyncio.Event | None = None
    """Set before anything happens."""

    async def wait(self) -> None:
        if self.until is not None:
            await self.until.wait()


class Faults:
    """Faults waiting, by method."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Fault]] = {}

    def add(self, method: str, kind: Kind | None = None, times: int = 1, until: asyncio.Event | None = None) -> None:
        """Have the next ``times`` calls of a method fail, or wait."""
        self._waiting.setdefault(method.lower(), deque()).extend([Fault(kind, until)] * times)

    def next(self, method: str) -> Fault:
        """The fault of a call that comes in now."""
        waiting = self._waiting.get(method.lower())
        return waiting.popleft() if waiting else Fault()
