"""Which test kills at which place. Every place has one that kills a real process there, or fails for not having."""

from collections.abc import Mapping

from mikan_api.kill_points import Step, kill_points

_EVENTS = "tests/integration/operator/test_scheduled_events.py"
ELSEWHERE: Mapping[Step, str] = {
    Step.MOVE_COMMIT: "tests/integration/telegram/test_intake_kill_points.py",
    Step.FIRING_SEND: _EVENTS,
    Step.SCHEDULED_EVENT_STATUS_APPLY: _EVENTS,
    Step.SCHEDULED_EVENT_DELETE: _EVENTS,
}
"""Steps with a test of their own, and where that is; all others are hit by tests that go through the lists below."""


def _through(process: str) -> list[str]:
    return [point for point in kill_points(process) if step_of(point) not in ELSEWHERE]


def step_of(point: str) -> Step:
    """The step that a place is of."""
    return Step(point.partition(":")[0].rpartition(".")[0])


TELEGRAM = _through("gateway.telegram")
"""Hit in ``tests/integration/telegram/test_kill_points.py``."""
GATEWAY = [point for point in _through("gateway") if point not in TELEGRAM]
"""Hit in ``tests/integration/durability/test_kill_points.py``."""
AGENT = _through("agent")
"""Likewise."""
OPERATOR = _through("operator")
"""Hit in ``tests/integration/operator/test_kill_points.py``."""
