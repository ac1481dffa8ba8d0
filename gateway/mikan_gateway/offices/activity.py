"""Activity of offices, told to the operator through their status.

Written when an office begins or ends to run something, and while it is used at most every quarter of its idle timeout;
the operator needs no more to decide what may sleep. Writes of one office are at least `GAP` apart, so a chat of quick
turns costs few; what is asked for meanwhile is joined into the next one. With nothing going on nothing is written.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mikan_api.durations import parse_duration
from mikan_api.identity import OfficeKey
from mikan_gateway.exceptions import ClusterError, ClusterNotFound
from mikan_gateway.offices.api import OfficeApi
from mikan_gateway.offices.directory import OfficeDirectory
from mikan_gateway.offices.view import OfficeRecord
from mikan_gateway.ports import SettingsSource
from mikan_gateway.runtime.clock import Clock, SystemClock, sleep_unless

GAP = 2.0
RETRIES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds to wait after each failed attempt, at most: until the API server answers again; the last one repeats."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Office:
    uid: str = ""
    running: int = 0
    seen: datetime = datetime.min.replace(tzinfo=UTC)
    written_running: int | None = None
    written_seen: datetime = datetime.min.replace(tzinfo=UTC)
    task: asyncio.Task[None] | None = None


class ActivityWriter:
    """Writes ``status.lastActivityTime`` and ``status.runningSessions``, in the background."""

    def __init__(
        self,
        api: OfficeApi,
        directory: OfficeDirectory,
        settings: SettingsSource,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._directory = directory
        self._settings = settings
        self._now = now
        self._clock = clock or SystemClock()
        self._offices: dict[OfficeKey, _Office] = {}

    def touch(self, key: OfficeKey, running: int) -> None:
        """Note that an office was used just now and runs so many sessions."""
        office = self._offices.get(key)
        record = self._directory.record(key)
        if office is None or (record is not None and record.uid != office.uid):
            office = self._offices[key] = _known(record)
        office.running, office.seen = running, self._now()
        if office.task is None and self._due(key, office):
            office.task = asyncio.create_task(self._write(key, office), name=f"activity-{key}")

    async def stop(self, seconds: float = 3.0) -> None:
        """Finish what is being written, for a bounded time."""
        tasks = [office.task for office in self._offices.values() if office.task]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _due(self, key: OfficeKey, office: _Office) -> bool:
        return office.running != office.written_running or office.seen - office.written_seen >= self._interval(key)

    def _interval(self, key: OfficeKey) -> timedelta:
        record = self._directory.record(key)
        own = record.spec.idle_timeout if record else None
        return parse_duration(own or self._settings.current.idle_timeout) / 4

    async def _write(self, key: OfficeKey, office: _Office) -> None:
        try:
            while self._due(key, office) and await self._attempt(key, office):
                # The pause joins the edges of quick turns; a sleeping office's first edge never waits for it.
                await self._clock.sleep(GAP)
        finally:
            office.task = None

    async def _attempt(self, key: OfficeKey, office: _Office) -> bool:
        """Write until it worked; False if there is no such office any more."""
        failures = 0
        while True:
            record = self._directory.record(key)
            if record is None:
                self._offices.pop(key, None)
                return False
            running, seen = office.running, office.seen
            status = {"lastActivityTime": _instant(seen), "runningSessions": running}
            try:
                await self._api.apply_status(key, status)
            except ClusterNotFound:
                self._offices.pop(key, None)
                return False
            except ClusterError as error:
                pause = RETRIES[min(failures, len(RETRIES) - 1)]
                failures += 1
                logger.warning("office status not written", extra={"office": key, "reason": str(error)})
                await sleep_unless(self._clock, pause, self._directory.recovery)
                continue
            office.written_running, office.written_seen = running, seen
            return True


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _known(record: OfficeRecord | None) -> _Office:
    """What a status says already, so that a restart does not write it again."""
    if record is None:
        return _Office()
    office, status = _Office(uid=record.uid), record.status
    if status.last_activity_time is not None:
        office.written_running, office.written_seen = status.running_sessions, status.last_activity_time
    return office
