"""Keeps the Kubernetes side in step: Offices that work waits for, agents that are gone, and a word about waiting.

Nothing here delivers anything. Once a second, while there is work, each office is looked at.
"""

import asyncio
import logging
from collections.abc import Sequence

from sqlalchemy import Connection

from mikan_api.identity import OfficeKey
from mikan_api.kill_points import Step
from mikan_gateway import close_codes
from mikan_gateway.exceptions import ClusterRefused, GatewayError, StorageError, UserFault
from mikan_gateway.ports import Offices, OfficeView, RunOutput
from mikan_gateway.runtime.board import Item, OfficeWork, WorkBoard
from mikan_gateway.runtime.clock import Clock, backoff, sleep_unless
from mikan_gateway.runtime.output import OutputPump
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.runs import cut_off, cut_off_notice

logger = logging.getLogger(__name__)

LOOK_EVERY = 1.0
TELL_AFTER = 3.0
"""Seconds that a run waits before people are told of something that needs somebody's attention."""
TELL_STARTING_AFTER = 20.0
"""Seconds before they are told that the office is merely slow to start."""
TELL_QUEUED_AFTER = 3.0
"""Seconds before they are told that a message waits for earlier ones."""
TELL_QUEUED = 3
"""Told of the first so many that wait: a platform that takes one message a second needs that second for answers."""
LOST_AFTER = 10.0
"""Seconds without a connection before the Office's status is believed that the agent's pod is gone, and before people
are told that it is missing."""
UNREACHABLE = "the cluster cannot be reached"
UNCONNECTED = "the agent that works on this can't be reached; waiting for it"
REFUSED = "the cluster refuses to make this conversation's office; an admin finds the reason in the gateway's log"
_EXPECTED = frozenset({"", "Starting", "Running", "Idle", "Stale"})


class OfficeKeeper:
    """Looks after the offices on the board."""

    def __init__(
        self, board: WorkBoard, database: Database, offices: Offices, output: RunOutput, pump: OutputPump, clock: Clock
    ) -> None:
        self._board, self._database, self._offices, self._output = board, database, offices, output
        self._pump, self._clock = pump, clock
        self._ensuring: dict[OfficeKey, asyncio.Task[None]] = {}
        self._reachable, self._recovery = True, asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look_for_ever(), name="office-keeper")

    async def close(self) -> None:
        tasks = [*self._ensuring.values()] + ([self._looking] if self._looking else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def want(self, work: OfficeWork) -> None:
        """There is something to do for an office: make sure that it exists and is seen to be active."""
        if not work.busy:
            return
        if self._offices.get(work.key) is not None:
            self.touch(work)
        elif work.key not in self._ensuring and work.unbegun():
            self._ensuring[work.key] = asyncio.create_task(self._ensure(work), name=f"ensure-{work.key}")

    def touch(self, work: OfficeWork) -> None:
        """Note activity."""
        if self._offices.get(work.key) is not None:
            self._offices.touch(work.key, work.busy)

    async def look(self) -> None:
        """Look at every office once."""
        self._look_at_cluster()
        for work in self._board:
            view = self._offices.get(work.key)
            self._check_link(work, view)
            if not work.busy:
                continue
            if self._is_gone(work, view):
                await self._give_up(work)
            self.want(work)
            work.wake()
            await self._tell(work, view)

    def _look_at_cluster(self) -> None:
        """Have what waits for the cluster tried at once when it is there again."""
        before, self._reachable = self._reachable, self._offices.health().ok
        if self._reachable and not before:
            recovery, self._recovery = self._recovery, asyncio.Event()
            recovery.set()

    async def told(self, item: Item, reason: str) -> None:
        """Say why a run waits; empty takes it back."""
        if item.told != reason:
            item.told = reason
            await self._output.waiting(item.record, reason)

    async def _look_for_ever(self) -> None:
        while True:
            if len(self._board) == 0:
                self._board.changed.clear()
                await self._board.changed.wait()
            try:
                await self.look()
            except Exception:
                logger.exception("looking after the offices failed")
            await self._clock.sleep(LOOK_EVERY)

    async def _ensure(self, work: OfficeWork) -> None:
        attempt = 0
        try:
            while wanting := work.unbegun():
                attempt += 1
                event, info = wanting[0].record.event, wanting[0].record.info
                try:
                    await self._offices.ensure(event.address, event.conversation_kind, info)
                except GatewayError as error:
                    work.trouble = _trouble(error)
                    logger.warning("no Office yet: %s", error, extra={"office": work.key, "attempt": attempt})
                else:
                    work.trouble = ""
                    self.touch(work)
                    work.wake()
                    return
                await sleep_unless(self._clock, backoff(attempt, 0.5, 30.0), self._recovery)
        finally:
            del self._ensuring[work.key]

    def _check_link(self, work: OfficeWork, view: OfficeView | None) -> None:
        """A connection dies with the Office, or the epoch, that its token was issued for."""
        if work.link is None or not self._offices.health().ok:
            return
        claims = work.link.claims
        if view is None or (view.uid, view.token_epoch) != (claims.uid, claims.epoch):
            work.link.close(close_codes.TOKEN_REFUSED, "this office's token is no longer valid")

    def _is_gone(self, work: OfficeWork, view: OfficeView | None) -> bool:
        if work.link is not None or work.agent is None:
            return False
        if view is None:
            return self._offices.health().ok
        if view.uid != work.agent.office_uid:
            return True
        silent = self._clock.monotonic() - work.lost_since >= LOST_AFTER
        return silent and view.agent_pod_uid is not None and view.agent_pod_uid != work.agent.pod_uid

    async def _give_up(self, work: OfficeWork) -> None:
        """Cut off what a lost agent had begun, and let what it had not begun go to the next one."""
        for item in work.items.values():
            if item.run.started_by is None:
                item.delivered_to = None
        lost = [item.run.run_id for item in work.items.values() if item.is_run and item.run.started_by is not None]
        if not lost:
            return

        def store(connection: Connection) -> Sequence[str]:
            cut_off(connection, work.key, lost)
            return lost

        try:
            await self._database.write(store, lambda run_ids: self.report_lost(work, run_ids), Step.LOST_COMMIT)
        except StorageError as error:
            logger.warning("lost runs are not reported yet: %s", error, extra={"office": work.key})

    def report_lost(self, work: OfficeWork, run_ids: Sequence[str]) -> None:
        """After the commit: these runs are over, and their conversations are told."""
        for run_id in run_ids:
            item = work.remove(run_id)
            if item is not None:
                logger.info("run cut off", extra={"office": work.key, "run": run_id})
                self._pump.add(item.record, cut_off_notice(work.key, run_id))
        self._board.tidy(work)

    async def _tell(self, work: OfficeWork, view: OfficeView | None) -> None:
        lost = self._lost(work, view)
        for item in work.running():
            waited = self._clock.monotonic() - item.since
            reason = lost if item.under_way else _reason(work, view, waited, self._reachable)
            await self._try_to_tell(item, reason)
        for item, ahead in list(work.queued()):
            if ahead > TELL_QUEUED or self._clock.monotonic() - item.since < TELL_QUEUED_AFTER:
                continue
            # Else it would stand above answers that come before it.
            if not self._pump.is_showing(item.record.line):
                head = work.head(item.run.session_key)
                self._output.expect(head.record if head else item.record)
                await self._try_to_tell(item, f"waiting for {ahead} earlier message{'s' if ahead > 1 else ''}")

    def _lost(self, work: OfficeWork, view: OfficeView | None) -> str:
        """What to say of runs whose agent is not connected; empty = nothing."""
        if work.link is not None or self._clock.monotonic() - work.lost_since < LOST_AFTER:
            return ""
        if view is not None and view.reason not in _EXPECTED:
            return _words(view.message or UNCONNECTED, view.reason)
        return UNCONNECTED

    async def _try_to_tell(self, item: Item, reason: str) -> None:
        try:
            await self.told(item, reason)
        except GatewayError as error:
            logger.warning("could not say why a run waits: %s", error, extra={"run": item.run.run_id})
            item.told = ""


def _trouble(error: GatewayError) -> str:
    if isinstance(error, UserFault):
        return str(error)
    return REFUSED if isinstance(error, ClusterRefused) else UNREACHABLE


def _reason(work: OfficeWork, view: OfficeView | None, waited: float, reachable: bool) -> str:
    """What to say of a run that has waited so long; empty = nothing yet."""
    if view is None:
        return work.trouble if waited >= TELL_AFTER else ""
    if view.suspended:
        return _words("this office is suspended", "Suspended")
    if work.link is not None or waited < TELL_AFTER:
        return ""
    if not reachable:
        return UNREACHABLE
    if view.reason not in _EXPECTED:
        return _words(view.message or "the office is not ready", view.reason)
    if waited < TELL_STARTING_AFTER:
        return ""
    if view.ready:
        return "the office runs, and its agent has not connected yet"
    return _words(view.message or "the office is still starting", view.reason or "Starting")


def _words(message: str, reason: str) -> str:
    return f"{message} ({reason})"
