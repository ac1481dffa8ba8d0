"""Takes what is due from the operator and makes runs of it: durable first, then a message, then the queue.

A firing is a prompt. It does not come through the intake, so nothing in it is a command or a magic word, and its author
is nobody: whoever it was set up for lends it no rights.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from mikan_api.exceptions import InvalidAddress
from mikan_api.firings import Firing, FiringOutcome, FiringResult
from mikan_api.identity import Platform
from mikan_api.kill_points import Step
from mikan_api.messaging import Author, ConversationEvent, ConversationMessage
from mikan_api.session_keys import parse_session_key
from mikan_gateway.events.ports import KnownOffices
from mikan_gateway.exceptions import ClusterError, StorageError
from mikan_gateway.ports import ChatPlatform, Target
from mikan_gateway.rendering.outbox import Outbox
from mikan_gateway.rendering.view import FIRST
from mikan_gateway.runtime.clock import Clock, backoff
from mikan_gateway.runtime.conversation_runtime import ConversationRuntime
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.firings import Offered, accept_firings, anchor, give_up, run_id_of
from mikan_gateway.storage.runs import StoredRun, anchoring_runs

ANCHOR = "⏰ _A scheduled event…_"
"""Shown until there is something to show; the answer takes its place."""
AT_ONCE = 64
"""Messages of one platform that are being posted."""
QUIET = 0.03
"""Seconds without a delivery after which messages are posted: thousands may be due at one instant, and the operator
hears of all of them first."""
AUTHOR = Author(id="scheduled-event", user_name="scheduled-event", display_name="Scheduled event", is_bot=True)

logger = logging.getLogger(__name__)


class Firings:
    """Implements the operator's side of scheduled events."""

    def __init__(
        self,
        database: Database,
        offices: KnownOffices,
        platforms: Mapping[Platform, ChatPlatform],
        outbox: Outbox,
        runtime: ConversationRuntime,
        clock: Clock,
    ) -> None:
        self._database, self._offices, self._platforms = database, offices, platforms
        self._outbox, self._runtime, self._clock = outbox, runtime, clock
        self._turns: dict[Platform, asyncio.Semaphore] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._taking, self._idle = 0, asyncio.Event()
        self._idle.set()

    async def start(self) -> None:
        """Go on with what an earlier process took.

        Raises:
            StorageError: the database failed.
        """
        for run in await self._database.read(anchoring_runs):
            self._begin(run)

    async def close(self) -> None:
        """Stop; what has no message yet gets it from the next process."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def deliver(self, firings: Sequence[Firing]) -> list[FiringResult]:
        """Take firings, each once for good; durable when it returns.

        Raises:
            ClusterError: it is not known which offices there are; deliver them again.
            StorageError: nothing is stored; deliver them again.
        """
        self._taking += 1
        self._idle.clear()
        try:
            return await self._take(firings)
        finally:
            self._taking -= 1
            asyncio.get_running_loop().call_later(QUIET, self._rest)

    def _rest(self) -> None:
        if not self._taking:
            self._idle.set()

    async def _take(self, firings: Sequence[Firing]) -> list[FiringResult]:
        now = self._clock.now()
        offered = [self._offer(firing, now) for firing in firings]
        accepted = await self._database.write(
            lambda connection: accept_firings(connection, offered, now),
            lambda accepted: self._accepted([run for _, run in accepted if run is not None]),
            Step.FIRING_COMMIT,
        )
        results = [result for result, _ in accepted]
        for firing, result in zip(firings, results, strict=True):
            if not result.outcome.accepted:
                logger.warning(
                    "scheduled event refused",
                    extra={"event": firing.name, "outcome": result.outcome, "reason": result.message},
                )
        return results

    def _offer(self, firing: Firing, now: float) -> Offered:
        try:
            key = firing.address.key
        except InvalidAddress as error:
            return _refused(firing, FiringOutcome.OFFICE_NOT_FOUND, str(error))
        platform = self._platforms.get(firing.platform)
        if platform is None:
            message = f"the platform {firing.platform} is not connected to this installation"
            return _refused(firing, FiringOutcome.PLATFORM_NOT_CONNECTED, message)
        view, record = self._offices.get(key), self._offices.record(key)
        if view is None or record is None or record.deleting:
            if not self._offices.health().ok:
                raise ClusterError("the offices are not known yet")
            return _refused(firing, FiringOutcome.OFFICE_NOT_FOUND, f"there is no office {key}")
        if view.suspended:
            return _refused(firing, FiringOutcome.OFFICE_SUSPENDED, f"the office {key} is suspended")
        spec = record.spec
        info = platform.info(spec.trust_model, spec.display_name or "")
        run_id, session = run_id_of(firing), parse_session_key(firing.conversation_id)
        event = ConversationEvent(
            platform=firing.platform,
            conversation_id=firing.conversation_id,
            conversation_kind=spec.conversation_kind,
            session_key=session,
            message=ConversationMessage(id="", author=AUTHOR, text=firing.text, time=firing.scheduled_time),
        )
        return Offered(firing, StoredRun(run_id, key, session, "scheduled", 0, 0, now, event, info))

    def _accepted(self, runs: Sequence[StoredRun]) -> None:
        for run in runs:
            self._begin(run)

    def _begin(self, run: StoredRun) -> None:
        task = asyncio.create_task(self._anchor(run), name=f"anchor-{run.run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _anchor(self, run: StoredRun) -> None:
        """Post the run's message and queue the run, for as long as it takes."""
        event = run.record.event
        platform = self._platforms.get(event.platform)
        attempt = 0
        while True:
            attempt += 1
            await self._idle.wait()
            try:
                message_id = None
                if platform is not None:
                    async with self._turns.setdefault(event.platform, asyncio.Semaphore(AT_ONCE)):
                        message_id = await self._post(platform, run)
                await self._store(run, message_id)
            except StorageError as error:
                logger.warning("scheduled event not begun yet: %s", error, extra={"run": run.run_id})
            except Exception:
                logger.exception("a scheduled event could not be begun", extra={"run": run.run_id})
            else:
                return
            await self._clock.sleep(backoff(attempt, 0.5, 30.0))

    async def _post(self, platform: ChatPlatform, run: StoredRun) -> str | None:
        target = Target(run.record.event.conversation_id)
        return await self._outbox.persist(
            lambda: self._outbox.post(platform, target, run.run_id, FIRST, ANCHOR), "scheduled event"
        )

    async def _store(self, run: StoredRun, message_id: str | None) -> None:
        if message_id is not None:
            await self._database.write(
                lambda connection: anchor(connection, run, message_id), self._runtime.queue, Step.ANCHOR_COMMIT
            )
            return
        reason = "the platform takes no message for this conversation"
        logger.error("a scheduled event has come to nothing: %s", reason, extra={"run": run.run_id})
        await self._database.write(lambda connection: give_up(connection, run, reason), step=Step.ANCHOR_COMMIT)


def _refused(firing: Firing, outcome: FiringOutcome, message: str) -> Offered:
    return Offered(firing, None, FiringResult(outcome=outcome, message=message[:1024]))
