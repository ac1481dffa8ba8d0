"""Reconciling a ScheduledEvent: its status says when it fires next, and when it is due the gateway is told.

Two queues share the work, so that thousands that are due at one instant are all delivered before the first of their
statuses is written: `ScheduledEventReconciler.fire` speaks with the gateway, `reconcile` with the API server. A process
that dies in between leaves an event due; the next one delivers it under the same id, which the gateway knows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from mikan_api.firings import Firing, FiringResult, delivery_id
from mikan_api.resources import Condition, ConditionType, Delivery, Reason, ScheduledEventSpec, ScheduledEventStatus
from mikan_operator import metrics
from mikan_operator.cache import Cache
from mikan_operator.conditions import State, false, merge, transitions, true
from mikan_operator.exceptions import Conflict, GatewayUnavailable, NotFound
from mikan_operator.observed import ScheduledEventObject
from mikan_operator.reconcile.events import EventRecorder
from mikan_operator.reconcile.ports import Clock, ObjectStore
from mikan_operator.schedule import Due, InvalidSchedule, Missed, Over, Timing, Waits, timing
from mikan_operator.storage.kinds import SCHEDULED_EVENT

FIRST_BACKOFF, MAX_BACKOFF = 0.5, 15.0
SAY_AFTER = 4
"""Tries after which a gateway that is away shows in the status."""
LOOK_AGAIN = 1.0
"""Seconds until an object is looked at again that changed as it was to be deleted."""


class Gateway(Protocol):
    """Takes firings."""

    async def deliver(self, firing: Firing) -> FiringResult:
        """Raises `GatewayUnavailable`."""
        ...


@dataclass(frozen=True, slots=True)
class _Fired:
    """What the gateway has said of one state of an event, until it is in the status."""

    uid: str
    generation: int
    due: Due
    at: datetime
    result: FiringResult


class ScheduledEventReconciler:
    """Keeps the status of ScheduledEvents, and fires them."""

    def __init__(
        self,
        cache: Cache,
        store: ObjectStore,
        gateway: Gateway,
        events: EventRecorder,
        clock: Clock,
        fire: Callable[[str, float], None],
        fired: Callable[[str], None],
    ) -> None:
        """Prepare.

        Args:
            cache: what the cluster is known to hold.
            store: the API server.
            gateway: who takes firings.
            events: for Kubernetes Events about faults.
            clock: the wall clock.
            fire: has `fire` called for a name after so many seconds, in place of an earlier appointment.
            fired: has `reconcile` called for a name soon.
        """
        self._cache, self._store, self._gateway = cache, store, gateway
        self._events, self._clock = events, clock
        self._fire_after, self._reconcile_soon = fire, fired
        self._fired: dict[str, _Fired] = {}
        self._tries: dict[str, int] = {}
        self._unanswered: dict[str, str] = {}

    async def reconcile(self, name: str) -> float | None:
        """Bring the status up to date; after how many seconds to look again."""
        event = self._cache.scheduled_events.get(name)
        fired = self._fired.get(name)
        if event is None or event.meta.deleting:
            self._forget(name)
            return None
        if fired is not None and (fired.uid, fired.generation) == (event.meta.uid, event.meta.generation):
            return await self._conclude(event, fired)
        # Else it has changed since: if it is due at the same time still, the gateway will know it.
        self._fired.pop(name, None)
        spec = event.spec
        if spec is None:
            await self._rest(event, Reason.INVALID_SCHEDULE, event.fault)
            return None
        if spec.suspend:
            await self._rest(event, Reason.SUSPENDED, "spec.suspend is set")
            return None
        try:
            when = timing(spec, event.meta, event.status, self._clock())
        except InvalidSchedule as error:
            await self._rest(event, Reason.INVALID_SCHEDULE, str(error))
            return None
        await self._act(event, when)
        return None

    async def fire(self, name: str) -> float | None:
        """Deliver an event that is due; after how many seconds to try again, if the gateway did not answer."""
        event = self._cache.scheduled_events.get(name)
        if event is None or event.meta.deleting or name in self._fired:
            return None
        now = self._clock()
        when = _timing(event, now)
        if not isinstance(when, Due) or event.spec is None:
            self._answered(name)
            if isinstance(when, Waits):
                return (when.at - now).total_seconds()
            self._reconcile_soon(name)
            return None
        try:
            result = await self._gateway.deliver(_firing(event, event.spec, when))
        except GatewayUnavailable as error:
            return self._unavailable(name, str(error))
        at = self._clock()
        metrics.FIRINGS.labels(result.outcome.value).inc()
        metrics.FIRING_LATENESS.observe(max((at - when.scheduled).total_seconds(), 0.0))
        self._answered(name)
        self._fired[name] = _Fired(event.meta.uid, event.meta.generation, when, at, result)
        self._reconcile_soon(name)
        return None

    def _unavailable(self, name: str, reason: str) -> float:
        tries = self._tries[name] = self._tries.get(name, 0) + 1
        metrics.FIRINGS.labels("unanswered").inc()
        if tries == SAY_AFTER:
            self._unanswered[name] = reason
            self._reconcile_soon(name)
        return min(FIRST_BACKOFF * 2.0 ** min(tries - 1, 10), MAX_BACKOFF)

    async def _act(self, event: ScheduledEventObject, when: Timing) -> None:
        match when:
            case Waits(at):
                await self._write(event, self._waiting(event), next_fire_time=at)
                self._fire_after(event.meta.name, (at - self._clock()).total_seconds())
            case Due(scheduled):
                if reason := self._unanswered.get(event.meta.name):
                    fault = false(ConditionType.READY, Reason.GATEWAY_UNAVAILABLE, f"due, and {reason}; tried again")
                    scheduled_state = true(ConditionType.SCHEDULED, Reason.SCHEDULED)
                    await self._write(event, (fault, scheduled_state), next_fire_time=scheduled)
                elif event.meta.name not in self._tries:
                    self._fire_after(event.meta.name, 0.0)
            case Missed(scheduled, following, late):
                message = f"late by {late.total_seconds():.0f} s, more than startingDeadlineSeconds"
                delivery = Delivery(
                    id=delivery_id(event.meta.uid, scheduled), result=Reason.MISSED.value, message=message
                )
                states = (false(ConditionType.READY, Reason.MISSED, message), _scheduled(following))
                await self._write(event, states, next_fire_time=following, last_delivery=delivery)
                if following is not None:
                    self._fire_after(event.meta.name, (following - self._clock()).total_seconds())
            case Over():
                pass

    async def _conclude(self, event: ScheduledEventObject, fired: _Fired) -> float | None:
        """Put into the status what became of a firing; what fires but once and did is deleted."""
        name, due = event.meta.name, fired.due
        if due.following is None and fired.result.outcome.accepted:
            try:
                await self._store.delete(SCHEDULED_EVENT, name, event.meta.uid, event.meta.version)
            except NotFound:
                pass
            except Conflict:
                return LOOK_AGAIN
            del self._fired[name]
            return None
        delivery = Delivery(
            id=delivery_id(event.meta.uid, due.scheduled),
            result=fired.result.outcome.value,
            message=fired.result.message,
        )
        states = (_delivered(fired.result), _scheduled(due.following))
        await self._write(event, states, next_fire_time=due.following, last_fire_time=fired.at, last_delivery=delivery)
        del self._fired[name]
        if due.following is not None:
            self._fire_after(name, (due.following - self._clock()).total_seconds())
        return None

    async def _rest(self, event: ScheduledEventObject, reason: Reason, message: str) -> None:
        """It fires no more until somebody changes it."""
        states = (false(ConditionType.READY, reason, message), false(ConditionType.SCHEDULED, reason, message))
        await self._write(event, states, next_fire_time=None)

    def _waiting(self, event: ScheduledEventObject) -> tuple[State, State]:
        """What holds until it is due: whatever the last firing left, unless somebody has changed the event since."""
        last, ready = event.status.last_delivery, _condition(event, ConditionType.READY)
        same = event.status.observed_generation == event.meta.generation
        if same and last is not None and ready is not None and ready.reason in _LEFT:
            left = State(ConditionType.READY, ready.status, Reason(ready.reason), ready.message)
            return left, true(ConditionType.SCHEDULED, Reason.SCHEDULED)
        return true(ConditionType.READY, Reason.SCHEDULED), true(ConditionType.SCHEDULED, Reason.SCHEDULED)

    async def _write(self, event: ScheduledEventObject, states: tuple[State, State], **changed: object) -> None:
        before, generation = event.status, event.meta.generation
        conditions = merge(states, before.conditions, generation, self._clock())
        status = ScheduledEventStatus.model_validate(
            {**dict(before), **changed, "observed_generation": generation, "conditions": conditions}
        )
        if status == before:
            return
        fields = {"metadata": {"uid": event.meta.uid}, "status": status.to_json_dict()}
        try:
            written = await self._store.apply(SCHEDULED_EVENT, event.meta.name, fields, "status")
        except NotFound:
            self._cache.scheduled_events.remove(event.meta.name, event.meta.uid)
            return
        self._cache.scheduled_events.put(ScheduledEventObject.of(written))
        await self._events.warn(SCHEDULED_EVENT, event.meta, transitions(states, before.conditions))

    def _forget(self, name: str) -> None:
        self._fired.pop(name, None)
        self._answered(name)

    def _answered(self, name: str) -> None:
        """Nothing of an event waits for the gateway any more."""
        self._tries.pop(name, None)
        self._unanswered.pop(name, None)


_LEFT = frozenset(
    {
        Reason.QUEUE_FULL,
        Reason.OFFICE_NOT_FOUND,
        Reason.OFFICE_SUSPENDED,
        Reason.PLATFORM_NOT_CONNECTED,
        Reason.MISSED,
    }
)
"""Reasons of a firing that came to nothing; they stand until the next one."""


def _timing(event: ScheduledEventObject, now: datetime) -> Timing | None:
    if event.spec is None or event.spec.suspend:
        return None
    try:
        return timing(event.spec, event.meta, event.status, now)
    except InvalidSchedule:
        return None


def _firing(event: ScheduledEventObject, spec: ScheduledEventSpec, due: Due) -> Firing:
    return Firing(
        delivery_id=delivery_id(event.meta.uid, due.scheduled),
        name=event.meta.name,
        platform=spec.platform,
        conversation_id=spec.conversation_id,
        conversation_kind=spec.conversation_kind,
        text=spec.text,
        scheduled_time=due.scheduled,
    )


def _delivered(result: FiringResult) -> State:
    if result.outcome.accepted:
        return true(ConditionType.READY, Reason.SCHEDULED)
    return false(ConditionType.READY, Reason(result.outcome.value), result.message)


def _scheduled(following: datetime | None) -> State:
    if following is None:
        return false(ConditionType.SCHEDULED, Reason.OVER)
    return true(ConditionType.SCHEDULED, Reason.SCHEDULED)


def _condition(event: ScheduledEventObject, kind: ConditionType) -> Condition | None:
    return next((c for c in event.status.conditions if c.type == kind.value), None)
