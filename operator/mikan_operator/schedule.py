"""When a scheduled event is due. Pure: spec, status and the time of day, never a clock of its own.

Cron expressions are `cronsim`'s, which follows Debian's cron through daylight saving: a job of a fixed time runs once
on both days (at once after the gap, and only the first time of the hour that comes twice), one of every hour or minute
follows real time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from mikan_api.events import check_instant, check_schedule, check_zone
from mikan_api.firings import delivery_id
from mikan_api.resources import ScheduledEventSpec, ScheduledEventStatus
from mikan_operator.observed import Meta

_BACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=40))
"""How far back the last tick is looked for; ever farther, so that few are counted."""


class InvalidSchedule(ValueError):
    """A time, zone or expression that the schema lets through and no calendar has; the message says which."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Due later."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Due:
    """Due now, and then at ``following``. Of several ticks that were missed, the last one."""

    scheduled: datetime
    following: datetime | None


@dataclass(frozen=True, slots=True)
class Missed:
    """Was due longer ago than its deadline allows."""

    scheduled: datetime
    following: datetime | None
    late: timedelta


@dataclass(frozen=True, slots=True)
class Over:
    """Its one time has been and gone."""


Timing: TypeAlias = Waits | Due | Missed | Over


def timing(spec: ScheduledEventSpec, meta: Meta, status: ScheduledEventStatus, now: datetime) -> Timing:
    """When an event that is not suspended is due.

    Raises:
        InvalidSchedule: never, and no status can say when.
    """
    if spec.type == "periodic":
        ticks = _Ticks(spec)
        first = _first(ticks, meta, status, now)
        if first > now:
            return Waits(first)
        scheduled = ticks.last(first, now)
        following: datetime | None = ticks.after(scheduled)
    else:
        scheduled, following = _instant(spec.at) if spec.at else meta.created, None
        if scheduled > now:
            return Waits(scheduled)
        if _is_over(meta, status, scheduled):
            return Over()
    late, deadline = now - scheduled, spec.starting_deadline_seconds
    if deadline is not None and late > timedelta(seconds=deadline):
        return Missed(scheduled, following, late)
    return Due(scheduled, following)


def _is_over(meta: Meta, status: ScheduledEventStatus, scheduled: datetime) -> bool:
    last = status.last_delivery
    return (
        status.observed_generation == meta.generation
        and last is not None
        and last.id == delivery_id(meta.uid, scheduled)
    )


def _first(ticks: "_Ticks", meta: Meta, status: ScheduledEventStatus, now: datetime) -> datetime:
    """The first tick that has not been dealt with: what the status says, and of a changed event if it is due by now and
    still in the schedule. What was to come is another thing: a new schedule may have earlier ticks."""
    known = status.next_fire_time
    unchanged = status.observed_generation == meta.generation
    if known is not None and (unchanged or (known <= now and ticks.has(known))):
        return known
    return ticks.after(meta.created if status.observed_generation is None else now)


class _Ticks:
    """The times of a cron expression in a zone."""

    def __init__(self, spec: ScheduledEventSpec) -> None:
        self._expression, self._zone = spec.schedule or "", spec.timezone or ""

    def after(self, moment: datetime) -> datetime:
        """The first tick after a moment."""
        return _after(self._expression, self._zone, moment)

    def has(self, moment: datetime) -> bool:
        """Whether a moment is a tick."""
        return self.after(moment - timedelta(seconds=1)) == moment

    def last(self, first: datetime, now: datetime) -> datetime:
        """The last tick up to now; ``first`` is one."""
        if self.after(first) > now:
            return first
        for start in (now - back for back in _BACK):
            if start > first and (found := self._last_between(start, now)) is not None:
                return found
        return self._last_between(first, now) or first

    def _last_between(self, start: datetime, now: datetime) -> datetime | None:
        found = None
        for tick in _ticks(self._expression, self._zone, start):
            if tick > now:
                break
            found = tick
        return found


@lru_cache(maxsize=8_192)
def _after(expression: str, zone: str, moment: datetime) -> datetime:
    """The first tick after a moment. Remembered: at nine o'clock thousands of events ask the same."""
    try:
        return next(_ticks(expression, zone, moment))
    except StopIteration:
        raise InvalidSchedule(f"{expression!r} never comes: no calendar has such a day") from None


def _ticks(expression: str, zone: str, moment: datetime) -> Iterator[datetime]:
    """The ticks after a moment.

    Raises:
        InvalidSchedule: when it is first asked.
    """
    try:
        check_schedule(expression)
        found = CronSim(expression, moment.astimezone(ZoneInfo(check_zone(zone))))
    except (ValueError, CronSimError) as error:
        raise InvalidSchedule(f"{expression!r} in {zone!r}: {error}") from None
    for tick in found:
        # Begun in the second hour of two, cronsim gives times of the first one.
        if tick > moment:
            yield tick.astimezone(UTC)


def _instant(at: str) -> datetime:
    try:
        return datetime.fromisoformat(check_instant(at)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidSchedule(str(error)) from None
