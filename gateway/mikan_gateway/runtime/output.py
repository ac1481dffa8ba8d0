"""Shows what has been committed, in its order: of a session, and of the gateway's own answers in a conversation.

An operation that could not be shown is tried again, for as long as the platform is at fault. What has been shown is
forgotten a moment later; a crash before that shows it again, which `RunOutput` allows.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from mikan_api.identity import OfficeKey
from mikan_api.kill_points import Step
from mikan_api.responder import Diagnostic, Upload
from mikan_gateway.exceptions import GatewayError, StorageError
from mikan_gateway.ports import RunOutput, RunRecord
from mikan_gateway.runtime.clock import Clock, backoff
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.operations import StoredOperation, forget_outputs

logger = logging.getLogger(__name__)

FORGET_AFTER = 0.25
"""Seconds for which shown operations are collected before one commit forgets them."""
FAULT_TRIES = 6
"""Tries of an operation that fails by a fault of ours; then it is given up so that the rest is shown."""


MISSING = "Something of this answer can't be shown because of a fault of mine. The gateway's log has the details."


class BlobBin(Protocol):
    """Where uploads and attachments wait."""

    async def discard_blob(self, office: OfficeKey, blob_id: str) -> None: ...

    async def discard_attachment(self, office: OfficeKey, attachment_id: str) -> None: ...


@dataclass(eq=False, slots=True)
class _Line:
    waiting: deque[tuple[RunRecord, StoredOperation]] = field(default_factory=deque)
    task: "asyncio.Task[None] | None" = None
    told_of_fault: str = ""
    """The run of which it was said that something is missing."""


class OutputPump:
    """Carries committed operations to the people."""

    def __init__(
        self,
        database: Database,
        output: RunOutput,
        blobs: BlobBin,
        clock: Clock,
        dropped: Callable[[], None] = lambda: None,
        counted: Callable[[RunRecord, StoredOperation], None] = lambda _run, _operation: None,
    ) -> None:
        """``dropped`` is called for each operation that is given up, ``counted`` with each that is to be shown."""
        self._database, self._output, self._blobs, self._clock = database, output, blobs, clock
        self._dropped, self._counted = dropped, counted
        self._lines: dict[str, _Line] = {}
        self._shown: list[StoredOperation] = []
        self._forgetting: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """Operations that have not been shown."""
        return sum(len(line.waiting) for line in self._lines.values())

    def is_showing(self, line: str) -> bool:
        """Whether there is something of a line still to be shown."""
        return line in self._lines

    def add(self, run: RunRecord, operation: StoredOperation) -> None:
        """Show a committed operation after those before it of the same line (`RunRecord.line`)."""
        self._counted(run, operation)
        line = self._lines.setdefault(run.line, _Line())
        line.waiting.append((run, operation))
        self._idle.clear()
        if line.task is None:
            line.task = asyncio.create_task(self._show_all(run.line, line), name=f"output-{run.line}")

    async def idle(self) -> None:
        """Wait until everything has been shown."""
        await self._idle.wait()

    async def close(self) -> None:
        """Stop showing, and forget what has been shown. The rest is shown after the next start."""
        tasks = [line.task for line in self._lines.values() if line.task is not None]
        if self._forgetting is not None:
            tasks.append(self._forgetting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._forget()

    async def _show_all(self, name: str, line: _Line) -> None:
        while line.waiting:
            run, operation = line.waiting[0]
            await self._show(run, operation)
            line.waiting.popleft()
            self._note_shown(operation)
        del self._lines[name]
        if not self._lines:
            self._idle.set()

    async def _show(self, run: RunRecord, operation: StoredOperation) -> None:
        attempt = 0
        while True:
            attempt += 1
            context = {"run": run.run_id, "office": run.office, "number": operation.number, "attempt": attempt}
            try:
                await self._apply(run, operation)
            except GatewayError as error:
                logger.warning("an operation could not be shown yet: %s", error, extra=context)
            except Exception:
                logger.exception("an operation could not be shown", extra=context)
                if attempt >= FAULT_TRIES:
                    await self._give_up(run, operation)
                    return
            else:
                return
            await self._clock.sleep(backoff(attempt, 0.5, 30.0))

    async def _give_up(self, run: RunRecord, operation: StoredOperation) -> None:
        """Say once for a run that something of it is missing, if at least that can be said."""
        self._dropped()
        line = self._lines[run.line]
        if line.told_of_fault == run.run_id:
            return
        line.told_of_fault = run.run_id
        try:
            await self._output.apply(run, operation.number, Diagnostic(level="error", text=MISSING))
        except Exception:
            logger.exception("it could not be said that something is missing", extra={"run": run.run_id})

    async def _apply(self, run: RunRecord, operation: StoredOperation) -> None:
        if operation.operation is None:
            await self._output.cut_off(run)
            return
        await self._output.apply(run, operation.number, operation.operation)
        if isinstance(operation.operation, Upload):
            await self._blobs.discard_blob(run.office, operation.operation.blob_id)

    def _note_shown(self, operation: StoredOperation) -> None:
        self._shown.append(operation)
        if self._forgetting is None:
            self._forgetting = asyncio.create_task(self._forget_soon(), name="output-forget")

    async def _forget_soon(self) -> None:
        await self._clock.sleep(FORGET_AFTER)
        self._forgetting = None
        await self._forget()

    async def _forget(self) -> None:
        shown, self._shown = self._shown, []
        if not shown:
            return
        try:
            await self._database.write(lambda connection: forget_outputs(connection, shown), step=Step.SHOWN_COMMIT)
        except StorageError as error:
            logger.warning("shown operations are not forgotten yet: %s", error, extra={"operations": len(shown)})
            self._shown = shown + self._shown
