"""Whether an office's pods are wanted, and with what: decided from values alone."""

from dataclasses import dataclass
from datetime import datetime

from mikan_api.effective import EffectiveOffice, InvalidPolicy, effective_office
from mikan_api.exceptions import InvalidValue
from mikan_api.resources import ConditionType, Reason
from mikan_api.settings import Settings
from mikan_operator.conditions import State, false
from mikan_operator.observed import OfficeObject


@dataclass(frozen=True, slots=True)
class Wish:
    """What an office's identity, policy and activity ask for.

    ``refusal`` says why no pods are wanted; ``seconds_left`` until inactivity ends them, where they are.
    """

    effective: EffectiveOffice | None
    refusal: State | None
    busy: bool
    seconds_left: float | None = None

    @property
    def wanted(self) -> bool:
        """Whether pods should run."""
        return self.refusal is None


def decide(office: OfficeObject, settings: Settings, now: datetime) -> Wish:
    """Whether an office's pods are wanted: a known identity, a valid policy, not suspended, and active lately.

    An office that has never been active counts from its creation: it is made because a message is there.
    """
    busy = (office.status.running_sessions or 0) > 0
    if office.spec is None:
        return Wish(None, _refused(Reason.INVALID_POLICY, office.fault), busy)
    try:
        key = office.spec.address.key
    except InvalidValue as error:
        return Wish(None, _refused(Reason.KEY_MISMATCH, str(error)), busy)
    if key != office.meta.name:
        text = f"the key of {office.spec.platform.value} {office.spec.conversation_id!r} is {key}"
        return Wish(None, _refused(Reason.KEY_MISMATCH, text), busy)
    try:
        effective = effective_office(office.spec, settings)
    except InvalidPolicy as error:
        return Wish(None, _refused(Reason.INVALID_POLICY, str(error)), busy)
    if office.spec.suspend:
        return Wish(effective, _refused(Reason.SUSPENDED, "spec.suspend is set"), busy)
    if busy:
        return Wish(effective, None, busy)
    last = min(office.status.last_activity_time or office.meta.created, now)
    left = (last + effective.idle_timeout - now).total_seconds()
    if left <= 0:
        return Wish(effective, _refused(Reason.IDLE, "no activity; the data is kept"), busy)
    return Wish(effective, None, busy, left)


def _refused(reason: Reason, message: str) -> State:
    return false(ConditionType.READY, reason, message)
