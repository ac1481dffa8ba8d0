"""Turns a run's operations into messages: the `RunOutput` port.

Every operation may come again after a crash, so each is written to be harmless twice: messages have slots in the
outbox, edits and deletions are idempotent, and whether an answer was shown is stored beside them.
"""

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from mikan_api.identity import Platform
from mikan_api.kill_points import Step, around
from mikan_api.messaging import Attachment
from mikan_api.responder import (
    DeleteResponse,
    Diagnostic,
    React,
    ReplaceResponse,
    Respond,
    ResponderOperation,
    RunFinished,
    RunOutcome,
    RunStarted,
    ToolStatus,
    Upload,
    Working,
)
from mikan_gateway.exceptions import PlatformError, SpoolRefused
from mikan_gateway.ports import ChatPlatform, RunRecord, Spool
from mikan_gateway.rendering.outbox import Outbox
from mikan_gateway.rendering.view import FAULT, RunView
from mikan_gateway.runtime.clock import Clock

SILENT = "[SILENT]"
CUT_OFF = "I was interrupted while working on this, and I won't repeat it by myself. Please ask again if you need it."
_LEVELS = {"info": "ℹ️", "warning": "⚠️", "error": "❌"}
_ENDINGS = {
    RunOutcome.STOPPED: "_(Stopped.)_",
    RunOutcome.BUDGET_EXCEEDED: "_(Stopped: a budget of this office is used up.)_",
    RunOutcome.FAILED: "_(This failed.)_",
}

logger = logging.getLogger(__name__)


class Renderer:
    """Implements `RunOutput` over the connected platforms."""

    def __init__(self, platforms: Mapping[Platform, ChatPlatform], outbox: Outbox, spool: Spool, clock: Clock) -> None:
        self._platforms = platforms
        self._outbox = outbox
        self._spool = spool
        self._clock = clock
        self._views: dict[str, RunView] = {}
        self._lines: dict[str, list[RunView]] = {}
        """The views of each session, in the order of their messages."""
        self._typing: dict[str, asyncio.Task[None]] = {}

    async def apply(self, run: RunRecord, number: int, operation: ResponderOperation) -> None:
        """Show a committed operation; returning means it needs no second try.

        Raises:
            StorageError: it could not be noted as shown.
        """
        platform = self._platforms.get(run.event.platform)
        if platform is None:
            logger.error("no such platform here any more", extra={"platform": run.event.platform, "run": run.run_id})
            return
        view = self._view(run, platform)
        match operation:
            case RunStarted():
                self._start(view, platform)
            case ToolStatus():
                view.draft.note(operation)
                view.status_changed()
            case Working():
                view.draft.working = operation.label
                view.status_changed()
            case Respond() | ReplaceResponse():
                await self._respond(view, operation.text)
            case DeleteResponse():
                await view.clear()
            case Diagnostic():
                await self._diagnose(view, platform, number, operation)
            case Upload():
                await self._upload(view, platform, operation)
            case RunFinished():
                await self._finish(view, platform, operation)
            case React():
                # A reaction is an optional capability; no platform here has it, and `can_react` says so.
                logger.debug("reaction not shown", extra={"run": run.run_id})

    def delta(self, run: RunRecord, offset: int, text: str) -> None:
        """Take in streamed text."""
        platform = self._platforms.get(run.event.platform)
        if platform is None:
            return
        view = self._view(run, platform)
        if view.draft.add(offset, text):
            view.text_changed()

    async def cut_off(self, run: RunRecord) -> None:
        """Say once that a run was cut off; a text that was streamed stays."""
        platform = self._platforms.get(run.event.platform)
        if platform is None:
            return
        view = self._view(run, platform)
        streamed = view.draft.text.strip()
        if streamed and not await view.is_answered():
            await view.answer(streamed)
            await self._notice(view, platform, "cut-off", CUT_OFF)
        elif not await view.is_answered():
            await view.answer(CUT_OFF)
        await self._end(view, platform)

    def expect(self, run: RunRecord) -> None:
        """Leave room for a run's message above those of runs that are told of later in its session."""
        platform = self._platforms.get(run.event.platform)
        if platform is not None:
            self._view(run, platform)

    async def waiting(self, run: RunRecord, reason: str) -> None:
        """Say why a run cannot begin yet; empty clears it."""
        platform = self._platforms.get(run.event.platform)
        if platform is None:
            return
        view = self._view(run, platform)
        if view.draft.waiting != reason:
            view.draft.waiting = reason
            view.status_changed()

    async def stop(self) -> None:
        """Paint nothing more; what is durable is shown after the next start."""
        for view in self._views.values():
            await view.end()
        for task in self._typing.values():
            task.cancel()
        await asyncio.gather(*self._typing.values(), return_exceptions=True)

    def _view(self, run: RunRecord, platform: ChatPlatform) -> RunView:
        view = self._views.get(run.run_id)
        if view is None:
            line = self._lines.setdefault(run.line, [])
            view = self._views[run.run_id] = RunView(run, platform, self._outbox, self._clock, tuple(line))
            line.append(view)
        return view

    def _start(self, view: RunView, platform: ChatPlatform) -> None:
        view.draft.started, view.draft.waiting = True, ""
        view.begin()
        # A platform's "typing" is slow and worth nothing once the answer is there: nobody waits for it.
        task = asyncio.create_task(self._set_working(platform, view.run, True))
        self._typing[view.run.run_id] = task

    async def _respond(self, view: RunView, text: str) -> None:
        silent = view.run.kind == "scheduled" and text.strip() == SILENT
        await (view.clear() if silent or not text.strip() else view.answer(text))

    async def _diagnose(self, view: RunView, platform: ChatPlatform, number: int, operation: Diagnostic) -> None:
        is_fault = operation.level == "error"
        if is_fault:
            view.explain()
        slot = f"{FAULT if is_fault else 'note:'}{number}"
        await self._notice(view, platform, slot, f"{_LEVELS[operation.level]} {operation.text}")

    async def _notice(self, view: RunView, platform: ChatPlatform, slot: str, text: str) -> None:
        run = view.run
        office = run.office if run.logged else None
        await self._outbox.post_logged(platform, run.target, office, run.run_id, slot, text)

    async def _upload(self, view: RunView, platform: ChatPlatform, operation: Upload) -> None:
        run, name = view.run, safe_name(operation.name)
        slot = f"upload:{operation.blob_id}"
        message_id = await self._outbox.posted(run.run_id, slot)
        if message_id is None:
            file = await self._blob(run, operation.blob_id)
            if file is None:
                await self._notice(view, platform, f"{slot}:missing", f"❌ The file `{name}` was lost on its way here.")
                return
            send = partial(self._outbox.upload, platform, run.target, run.run_id, slot, file, name, operation.title)
            message_id = await self._outbox.persist(send, "upload")
        if message_id is None:
            await self._notice(view, platform, f"{slot}:refused", f"❌ The file `{name}` can't be shown here.")
        else:
            sent = Attachment(id=operation.blob_id, name=name, original_name=name, media_type=operation.media_type)
            await self._outbox.log(run.office, run.target, message_id, operation.title, (sent,))

    async def _blob(self, run: RunRecord, blob_id: str) -> Path | None:
        """The file of an upload, if it is there."""
        try:
            file = self._spool.blob(run.office, blob_id)
        except SpoolRefused:
            return None
        return file if await asyncio.to_thread(file.is_file) else None

    async def _finish(self, view: RunView, platform: ChatPlatform, operation: RunFinished) -> None:
        if operation.outcome is RunOutcome.HANDED_BACK:
            return  # it will be delivered again and has nothing to say yet
        ending = _ENDINGS.get(operation.outcome, "")
        if operation.outcome in {RunOutcome.FAILED, RunOutcome.BUDGET_EXCEEDED}:
            # The agent has most likely said it already, in words made for people.
            said = await view.is_explained()
            ending = "" if said else f"❌ {operation.detail}" if operation.detail else ending
        await view.settle(ending)
        await self._end(view, platform)

    async def _end(self, view: RunView, platform: ChatPlatform) -> None:
        await view.end()
        typing = self._typing.pop(view.run.run_id, None)
        if typing is not None:
            await typing
        await self._set_working(platform, view.run, False)
        self._forget(view)

    def _forget(self, view: RunView) -> None:
        self._views.pop(view.run.run_id, None)
        line = self._lines.get(view.run.line, [])
        if view in line:
            line.remove(view)
        if not line:
            self._lines.pop(view.run.line, None)

    async def _set_working(self, platform: ChatPlatform, run: RunRecord, working: bool) -> None:
        with suppress(PlatformError), around(Step.PLATFORM_WORKING):  # an ornament: its loss is not worth a word
            await platform.set_working(run.target, working)


def safe_name(name: str) -> str:
    """A file name that names nothing outside a directory and hides nothing, whatever the model called it."""
    last = re.split(r"[/\\]", name)[-1]
    plain = re.sub(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", "", last).strip(" .")
    return plain[:200] or "file"
