"""Numbered operations, kept until the gateway has them.

Bounded: whoever produces faster than the gateway commits waits. Numbers count up from 1 for the life of the process.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable

from mikan_api.responder import ResponderOperation
from mikan_api.wire import Operation

MAX_OPERATIONS = 512
MAX_CHARACTERS = 8_000_000


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def sendable(operation: ResponderOperation) -> ResponderOperation:
    """The operation with control characters replaced in its texts.

    No conversation shows them, and sixfold in JSON they would take a long answer past the length of a frame.
    """
    texts = {k: v for k, v in operation if isinstance(v, str) and _CONTROL.search(v)}
    return operation.model_copy(update={k: _CONTROL.sub("\ufffd", v) for k, v in texts.items()})


class Outbox:
    """Operations in order of their numbers; the front ones leave when they are acknowledged."""

    def __init__(self, max_operations: int = MAX_OPERATIONS, max_characters: int = MAX_CHARACTERS) -> None:
        self._kept: deque[tuple[Operation, int]] = deque()
        self._max_operations, self._max_characters = max_operations, max_characters
        self._characters = 0
        self._last = 0
        self._changed = asyncio.Condition()
        self.listener: Callable[[Operation], None] = lambda _: None
        """Told of each new operation, in order."""

    @property
    def last_number(self) -> int:
        """Number of the newest operation; 0 = none yet."""
        return self._last

    async def put(self, run_id: str, operation: ResponderOperation) -> None:
        """Number an operation and keep it; waits while the outbox is full."""
        operation = sendable(operation)
        size = len(getattr(operation, "text", ""))
        async with self._changed:
            await self._changed.wait_for(self._has_room)
            self._last += 1
            numbered = Operation(number=self._last, run_id=run_id, operation=operation)
            self._kept.append((numbered, size))
            self._characters += size
        self.listener(numbered)

    def _has_room(self) -> bool:
        return len(self._kept) < self._max_operations and self._characters < self._max_characters

    async def acknowledge(self, number: int) -> list[Operation]:
        """Drop everything up to ``number``; returns what was dropped. A number seen before drops nothing."""
        done = []
        async with self._changed:
            while self._kept and self._kept[0][0].number <= number:
                operation, size = self._kept.popleft()
                self._characters -= size
                done.append(operation)
            self._changed.notify_all()
        return done

    def pending(self) -> list[Operation]:
        """All that is not acknowledged."""
        return [operation for operation, _ in self._kept]

    async def emptied(self) -> None:
        """Wait until everything is acknowledged."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._kept)
