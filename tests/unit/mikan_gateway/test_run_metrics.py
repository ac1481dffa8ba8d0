"""What runs consume, as Prometheus reads it."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gateway_doubles import inbound
from mikan_api.responder import Respond, ResponderOperation, RunFinished, RunOutcome, RunStarted, ToolStatus, Usage
from mikan_gateway.ports import RunRecord
from mikan_gateway.run_metrics import RunMetrics
from mikan_gateway.storage.operations import StoredOperation


def count(metrics: RunMetrics, *operations: ResponderOperation | None, kind: Any = "message") -> None:
    """Have a run's operations counted."""
    message = inbound()
    event = message.event
    run = RunRecord("r1", event.address.key, event.session_key, event, message.info, kind=kind)
    for number, operation in enumerate(operations, 1):
        metrics.count(run, StoredOperation(run.office, "i", number, run.run_id, operation))


def tool(state: str, call: str = "c1") -> ToolStatus:
    return ToolStatus.model_validate({"call_id": call, "label": "ls", "state": state})


def test_a_run_counts_with_its_turns_tokens_cost_and_tool_time() -> None:
    registry, clock = CollectorRegistry(), iter([10.0, 11.0, 13.0, 15.0])
    metrics = RunMetrics(registry, lambda: next(clock))
    usage = Usage(input_tokens=20, output_tokens=10, cost_usd=0.002, model_calls=2)
    operations: list[ResponderOperation] = [
        RunStarted(),
        tool("running"),
        tool("done"),
        Respond(text="Done."),
        RunFinished(outcome=RunOutcome.COMPLETED, usage=usage),
    ]
    count(metrics, *operations)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("mikan_runs_total", outcome="completed") == 1
    assert (value("mikan_run_seconds_count"), value("mikan_run_seconds_sum")) == (1, 5)
    assert value("mikan_model_calls_total") == 2
    assert (value("mikan_tokens_total", kind="input"), value("mikan_tokens_total", kind="output")) == (20, 10)
    assert value("mikan_cost_usd_total") == 0.002
    assert value("mikan_tool_calls_total", state="done") == 1
    assert (value("mikan_tool_seconds_count"), value("mikan_tool_seconds_sum")) == (1, 2)


def test_a_changed_label_does_not_restart_a_calls_time() -> None:
    registry, clock = CollectorRegistry(), iter([1.0, 5.0, 9.0])
    metrics = RunMetrics(registry, lambda: next(clock))
    count(metrics, *map(tool, ("running", "running", "failed")))
    assert registry.get_sample_value("mikan_tool_calls_total", {"state": "failed"}) == 1
    assert registry.get_sample_value("mikan_tool_seconds_sum") == 8


@pytest.mark.parametrize(("end", "outcome"), [(RunFinished(outcome=RunOutcome.STOPPED), "stopped"), (None, "cut_off")])
def test_nothing_is_kept_of_a_run_that_is_over(end: RunFinished | None, outcome: str) -> None:
    registry = CollectorRegistry()
    metrics = RunMetrics(registry, lambda: 0.0)
    count(metrics, RunStarted(), tool("running"), end)
    assert (metrics._began, metrics._calls) == ({}, {})
    assert registry.get_sample_value("mikan_runs_total", {"outcome": outcome}) == 1


@pytest.mark.parametrize("kind", ["answer", "refusal", "notice"])
def test_what_the_gateway_says_itself_is_no_run(kind: str) -> None:
    registry = CollectorRegistry()
    count(RunMetrics(registry, lambda: 0.0), RunFinished(outcome=RunOutcome.COMPLETED), kind=kind)
    assert registry.get_sample_value("mikan_runs_total", {"outcome": "completed"}) is None


def test_what_no_upstream_can_have_meant_makes_no_sum_wrong() -> None:
    registry = CollectorRegistry()
    metrics = RunMetrics(registry, lambda: 0.0)
    odd = Usage(input_tokens=-5, output_tokens=10**400, cost_usd=float("nan"), model_calls=1)
    count(metrics, RunFinished(outcome=RunOutcome.COMPLETED, usage=odd))
    assert registry.get_sample_value("mikan_tokens_total", {"kind": "input"}) == 0
    assert registry.get_sample_value("mikan_tokens_total", {"kind": "output"}) == 2**53
    assert registry.get_sample_value("mikan_cost_usd_total") == 0
    assert registry.get_sample_value("mikan_model_calls_total") == 1
