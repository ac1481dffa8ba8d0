"""What a pod's own status means for the conditions of its office."""

from mikan_api.resources import ConditionType, Reason
from mikan_operator.conditions import State, false, true
from mikan_operator.observed import IMAGE_WAITS, PodObject


def pod_state(kind: ConditionType, pod: PodObject | None) -> State:
    """The condition of a wanted pod."""
    if pod is None:
        return false(kind, Reason.STARTING, "not there yet")
    name = pod.meta.name
    if pod.meta.deleting:
        return false(kind, Reason.TERMINATING, f"waiting until the old pod {name} is gone")
    if pod.finished:
        ended = pod.ended
        return false(
            kind, Reason.POD_FAILED, f"pod {name}: {ended.reason}: {ended.message}" if ended else f"pod {name}"
        )
    if pod.ready:
        return true(kind, Reason.RUNNING)
    if pod.unschedulable:
        return false(kind, Reason.POD_UNSCHEDULABLE, f"pod {name}: {pod.unschedulable}")
    if pod.waiting:
        image = pod.waiting.reason in IMAGE_WAITS
        reason = Reason.IMAGE_UNAVAILABLE if image else Reason.CONTAINER_FAILING
        return false(kind, reason, f"pod {name}: {pod.waiting.message}")
    return false(kind, Reason.STARTING, f"pod {name} is {pod.phase.lower()}")


def summary(agent: State, sandbox: State, vault: State, stale: str) -> State:
    """The Ready condition of an office whose pods are wanted. ``stale`` says what a running session still lacks."""
    kind = ConditionType.READY
    for part in (vault, agent, sandbox):
        if not part.is_true and part.reason is not Reason.STARTING:
            return false(kind, part.reason, part.message)
    for part in (agent, sandbox):
        if not part.is_true:
            return false(kind, Reason.STARTING, part.message)
    return true(kind, Reason.STALE, stale) if stale else true(kind, Reason.RUNNING)
