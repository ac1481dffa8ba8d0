"""Conditions in the Kubernetes form, merged over what an object already has."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from mikan_api.resources import Condition, ConditionType, Reason

MAX_TEXT = 1024


@dataclass(frozen=True, slots=True)
class State:
    """A condition without its times."""

    type: ConditionType
    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str = ""

    @property
    def is_true(self) -> bool:
        """Whether the condition holds."""
        return self.status == "True"


def true(kind: ConditionType, reason: Reason, message: str = "") -> State:
    """A condition that holds."""
    return State(kind, "True", reason, message)


def false(kind: ConditionType, reason: Reason, message: str = "") -> State:
    """A condition that does not hold."""
    return State(kind, "False", reason, message)


def merge(states: Iterable[State], known: Iterable[Condition], generation: int, now: datetime) -> tuple[Condition, ...]:
    """The conditions to store. The transition time moves only when the status does (API conventions)."""
    before = {condition.type: condition for condition in known}
    merged = []
    for state in states:
        old = before.get(state.type.value)
        moved = old is None or old.status != state.status
        merged.append(
            Condition(
                type=state.type.value,
                status=state.status,
                reason=state.reason.value,
                message=state.message[:MAX_TEXT],
                last_transition_time=now.replace(microsecond=0) if moved or old is None else old.last_transition_time,
                observed_generation=generation,
            )
        )
    return tuple(merged)


def transitions(states: Iterable[State], known: Iterable[Condition]) -> list[State]:
    """Conditions whose status or reason is not what the object says so far."""
    before = {condition.type: (condition.status, condition.reason) for condition in known}
    return [state for state in states if before.get(state.type.value) != (state.status, state.reason.value)]
