"""One run's messages on its platform: painted from a draft while it runs, and for good at its end.

Paints come one after another. Drafts are throttled to the platform's pace and may fail; the last paint may not. Without
text the first paint waits a little, so that a quick short answer is one post and no edit; an agent holds its first text
back for the same reason.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mikan_api.kill_points import Step, around
from mikan_gateway.exceptions import PlatformError, PlatformRefused, PlatformUnavailable, StorageError
from mikan_gateway.ports import ChatPlatform, RunRecord, Target
from mikan_gateway.rendering.draft import Draft
from mikan_gateway.rendering.outbox import Outbox
from mikan_gateway.runtime.clock import Clock
from mikan_gateway.storage.outgoing import Outgoing

PLACEHOLDER = 0.4
"""Seconds that a run may show nothing at all."""
MAX_TEXT_MESSAGES = 50
"""Messages that one answer may take; what is beyond is cut, and said."""
CUT = "\n\n_(The rest of this answer is too long to be shown.)_"
FIRST = "answer:0"
"""Slot of a run's first message."""
FINAL = "final"
"""Slot whose intent says that the answer has been shown."""
FAULT = "fault:"
"""Begins the slot of a message that says what went wrong."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Part:
    """One message of a run. ``text`` is unknown of what an earlier process posted."""

    message_id: str
    text: str | None
    generation: int
    """How many messages had this place before and are gone."""
    draft: bool
    """Whether the platform may forget this text in a crash."""


class RunView:
    """What is posted of one run."""

    def __init__(
        self, run: RunRecord, platform: ChatPlatform, outbox: Outbox, clock: Clock, ahead: "Sequence[RunView]" = ()
    ) -> None:
        """``ahead``: those of the same session whose messages come first."""
        self.run = run
        self._ahead = ahead
        self.draft = Draft()
        self._platform = platform
        self._outbox = outbox
        self._clock = clock
        self._target: Target = run.target
        self._lock = asyncio.Lock()
        self._shown: list[_Part] = []
        self._intent: Outgoing | None = None
        """The first message's, stored while nothing is to be shown yet: one commit less before people see it."""
        self._logged: set[str] = set()
        """Messages that were numbered in the log as they were posted."""
        self._unnoted: set[str] = set()
        """Slots of which the database could not tell, or keep, what stands there."""
        self._loaded = False
        self._closed = False
        self._ended = False
        self._answered = False
        self._explained = False
        self._began = clock.monotonic()
        self._painted = float("-inf")
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def hidden_beginning(self) -> bool:
        """Whether the text so far could still become the mark of an answer that is not to be shown."""
        text = self.draft.text.strip()
        return self.run.kind == "scheduled" and "[SILENT]".startswith(text)

    @property
    def has_place(self) -> bool:
        """Whether its first message stands, or never will."""
        return self._ended or bool(self._shown)

    # Drafts

    def begin(self) -> None:
        """The run has started: have something to show soon, and the intent of the first message stored meanwhile."""
        self._began = self._clock.monotonic()
        self._spawn(self._prepare())
        self.status_changed()
        if self.draft.text:
            self.text_changed()

    def text_changed(self) -> None:
        """There is more text: paint it soon."""
        if not self.hidden_beginning:
            self._paint_in(self._pause())

    def status_changed(self) -> None:
        """There is another state to show: paint it soon."""
        self._paint_in(self._pause() if self._shown else max(0.0, self._began + PLACEHOLDER - self._clock.monotonic()))

    def _pause(self) -> float:
        return max(0.0, self._painted + self._platform.pace - self._clock.monotonic())

    def _paint_in(self, seconds: float) -> None:
        if self._closed:
            return
        at = self._clock.monotonic() + seconds
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = asyncio.create_task(self._wait(seconds), name=f"paint-{self.run.run_id}")

    async def _wait(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._timer = None
        self._spawn(self._paint_draft())

    async def _paint_draft(self) -> None:
        async with self._lock:
            text = self.draft.compose()
            if self._closed or not text or (self.draft.text and self.hidden_beginning):
                return
            if not await self._may_begin():
                return
            try:
                await self._paint(text, draft=True)
            except PlatformUnavailable as error:
                self._painted = self._clock.monotonic() + (error.retry_after or 0.0)
                self._paint_in(self._pause())
                logger.debug("draft not shown yet", extra={"run": self.run.run_id, "reason": str(error)})
            except StorageError as error:
                self._painted = self._clock.monotonic()
                logger.warning("a draft is not noted: %s", error, extra={"run": self.run.run_id})
            except PlatformError as error:
                # What it says of one draft holds for the next, most likely; the answer is tried all the same.
                self._close()
                logger.warning("no draft is shown", extra={"run": self.run.run_id, "reason": str(error)})

    async def _may_begin(self) -> bool:
        """Whether a first message now would stand below those of earlier runs; if not yet, it is tried again."""
        if not (self.draft.started or self.run.started or self.draft.waiting):
            return False  # `begin` comes once all that is earlier has been shown
        await self._load()
        if self._shown:
            return True
        if all(view.has_place for view in self._ahead):
            return True
        self._paint_in(PLACEHOLDER)
        return False

    # For good

    async def answer(self, text: str) -> None:
        """Show the whole answer, for as long as it takes, and number it in the log."""
        self._close()
        async with self._lock:
            await self._load()
            marker = asyncio.create_task(self._outbox.begin(self.run.run_id, FINAL))
            try:
                painted = await self._outbox.persist(lambda: self._finish(text), "answer")
            finally:
                await marker
            for part in painted or ():
                if self.run.logged and part.message_id not in self._logged:
                    await self._outbox.log(self.run.office, self._target, part.message_id, part.text or "")
            self._answered = True

    async def clear(self) -> None:
        """Take away all that was posted as answer or placeholder, and forget what was streamed."""
        self._close()
        self.draft = Draft()
        async with self._lock:
            await self._load()
            await self._remove_from(0)

    async def settle(self, ending: str = "") -> None:
        """The run is over. Without an answer: keep the text that was streamed, with ``ending`` below it, else nothing.

        Args:
            ending: what to say about the end; alone if there is no text.
        """
        self._close()
        async with self._lock:
            await self._load()
            answered = self._answered
        if answered:
            return
        text = "\n\n".join(filter(None, (self.draft.text.strip(), ending)))
        await (self.answer(text) if text else self.clear())

    async def is_answered(self) -> bool:
        """Whether an answer was shown, in this process or an earlier one."""
        async with self._lock:
            await self._load()
            return self._answered

    def explain(self) -> None:
        """What went wrong is being said in a message of its own."""
        self._explained = True

    async def is_explained(self) -> bool:
        """Whether people know what went wrong, from this process or an earlier one."""
        async with self._lock:
            await self._load()
            return self._explained

    async def end(self) -> None:
        """Paint nothing more; wait for what is under way."""
        self._ended, self._ahead = True, ()
        self._close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Painting; always under the lock

    async def _finish(self, text: str) -> list["_Part"]:
        await self._paint(text, draft=False)
        await self._remove_from(len(self._parts(text)))
        return list(self._shown)

    async def _paint(self, text: str, draft: bool) -> None:
        await self._load()
        for index, part in enumerate(self._parts(text)):
            await self._show(index, part, draft)
        self._painted = self._clock.monotonic()

    def _parts(self, text: str) -> list[str]:
        parts = list(self._platform.split(text))
        if len(parts) > MAX_TEXT_MESSAGES:
            parts = parts[:MAX_TEXT_MESSAGES]
            parts[-1] = self._platform.split(parts[-1][: -len(CUT)])[0] + CUT
        return parts

    async def _show(self, index: int, text: str, draft: bool) -> None:
        if index < len(self._shown):
            shown = self._shown[index]
            if shown.text == text and (draft or not shown.draft):
                return
            try:
                with around(Step.PLATFORM_EDIT):
                    await self._platform.edit(self._target, shown.message_id, text, draft)
                self._shown[index] = _Part(shown.message_id, text, shown.generation, draft)
                return
            except PlatformRefused:
                # Gone, most likely deleted by somebody: another message takes its place.
                generation = shown.generation + 1
        else:
            generation = 0
        slot = _slot(index, generation)
        try:
            message_id = await self._post(slot, text, draft, not draft and self._is_logged_to(index))
        except StorageError:
            # It may stand there all the same: then it is found again by its nonce, with a text that nobody kept.
            self._unnoted.add(slot)
            raise
        if slot in self._unnoted:
            self._unnoted.discard(slot)
            self._shown[index : index + 1] = [_Part(message_id, None, generation, draft=True)]
            await self._show(index, text, draft)
            return
        # What a post showed survives a crash, so it needs no edit to be final.
        self._shown[index : index + 1] = [_Part(message_id, text, generation, draft=False)]

    async def _post(self, slot: str, text: str, draft: bool, log: bool) -> str:
        intent, self._intent = self._intent, None
        if intent is None or intent.slot != slot or intent.message_id is not None:
            return await self._outbox.post(self._platform, self._target, self.run.run_id, slot, text, draft)
        office = self.run.office if log else None
        message_id = await self._outbox.send(self._platform, self._target, intent, text, office, draft)
        if log:
            self._logged.add(message_id)
        return message_id

    def _is_logged_to(self, index: int) -> bool:
        """Whether the messages before a place are in the log, which has them in their order."""
        return all(part.message_id in self._logged for part in self._shown[:index])

    async def _remove_from(self, index: int) -> None:
        for part in self._shown[index:]:
            with around(Step.PLATFORM_DELETE):
                await self._outbox.persist(partial(self._platform.delete, self._target, part.message_id), "delete")
        del self._shown[index:]

    async def _prepare(self) -> None:
        first = FIRST
        async with self._lock:
            if self._loaded:
                return
            intents = await self._outbox.begin_run(self.run.run_id, first)
            self._take_up(intents)
            self._intent = next(intent for intent in intents if intent.slot == first)

    async def _load(self) -> None:
        """What an earlier process posted of this run."""
        if not self._loaded:
            self._take_up(await self._outbox.intents(self.run.run_id))

    def _take_up(self, intents: Sequence[Outgoing]) -> None:
        slots = {intent.slot: intent.message_id for intent in intents}
        self._answered = self._answered or FINAL in slots
        self._explained = self._explained or any(slot.startswith(FAULT) for slot in slots)
        index = 0
        while (found := _newest(slots, index)) is not None:
            generation, message_id = found
            self._shown.append(_Part(message_id, None, generation, draft=True))
            index += 1
        self._loaded = True

    def _close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _slot(index: int, generation: int) -> str:
    return f"answer:{index}" if generation == 0 else f"answer:{index}:{generation}"


def _newest(slots: dict[str, str | None], index: int) -> tuple[int, str] | None:
    """The message that has a place now: of the highest generation that was sent."""
    generation = 0
    newest: tuple[int, str] | None = None
    while (slot := _slot(index, generation)) in slots:
        message_id = slots[slot]
        if message_id is not None:
            newest = generation, message_id
        generation += 1
    return newest


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        # Background work of a draft; the run's operations report their own faults to their caller.
        logger.exception("drawing a draft failed")
