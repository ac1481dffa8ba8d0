"""A run's way into its conversation: numbered operations, and the answer as it streams.

Streamed text is shown at a steady pace, however small the model's pieces are. Its beginning waits a little, so that a
short answer that comes at once is said once.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from mikan_agent.answer_text import AnswerText
from mikan_agent.clock import Clock
from mikan_api.responder import MAX_TEXT, Diagnostic, Respond, ResponderOperation, ToolStatus, Working

FIRST = 0.03
"""Seconds that the first streamed text waits for more."""
PACE = 0.04
"""Seconds between two frames of streamed text."""


class Operations(Protocol):
    """Takes operations; they are kept until the gateway has them."""

    async def put(self, run_id: str, operation: ResponderOperation) -> None:
        """Keep and send one; waits where the gateway lags far behind."""


class Responder:
    """What the harness says in one run."""

    def __init__(self, run_id: str, operations: Operations, show: Callable[[AnswerText], None], clock: Clock) -> None:
        self.run_id = run_id
        self.text = AnswerText(run_id)
        self._operations, self._show, self._clock = operations, show, clock
        self._new_text = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._working = ""
        self._warned: set[str] = set()

    async def emit(self, operation: ResponderOperation) -> None:
        """Send an operation."""
        await self._operations.put(self.run_id, operation)

    async def working(self, label: str) -> None:
        """Say what is being waited for; empty: nothing any more. Repeats are not sent."""
        if label != self._working:
            self._working = label
            await self.emit(Working(label=label))

    async def tool_status(self, call_id: str, label: str, state: str) -> None:
        """Say how a tool call stands."""
        await self.emit(ToolStatus.model_validate({"call_id": call_id, "label": label, "state": state}))

    async def diagnostic(self, text: str, level: str = "error") -> None:
        """Tell the conversation of a fault, with the next step."""
        await self.emit(Diagnostic.model_validate({"level": level, "text": text[:10_000]}))

    async def warn_once(self, text: str) -> None:
        """Tell of a fault that may repeat within a run; the first time only."""
        if text not in self._warned:
            self._warned.add(text)
            await self.diagnostic(text, "warning")

    async def respond(self, text: str) -> None:
        """The answer, whole."""
        self.stop_streaming()
        await self.emit(Respond(text=text[:MAX_TEXT]))

    def stream(self, text: str) -> None:
        """Add to the answer as it is told."""
        self.text.append(text)
        self._new_text.set()
        if self._pump is None:
            self._pump = asyncio.create_task(self._pace())

    def stop_streaming(self) -> None:
        """Show nothing more of the stream: the whole follows, or nothing does."""
        if self._pump is not None:
            self._pump.cancel()
            self._pump = None

    async def _pace(self) -> None:
        await self._clock.sleep(FIRST)
        while True:
            await self._new_text.wait()
            self._new_text.clear()
            self._show(self.text)
            await self._clock.sleep(PACE)
