"""What runs consume, for Prometheus, read off the operations that agents report.

Counted once an operation is durable and was not known before, so that a repeat after a cut counts once. Seconds are the
gateway's: from the report of a beginning to that of its end.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

from mikan_api.responder import RunFinished, RunStarted, ToolStatus, Usage
from mikan_gateway.ports import RunRecord
from mikan_gateway.storage.operations import StoredOperation

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class RunMetrics:
    """Counters of one process."""

    def __init__(self, registry: CollectorRegistry, now: Callable[[], float]) -> None:
        """``now``: seconds that never run backwards."""
        self._now = now
        self._began: dict[str, float] = {}
        self._calls: dict[str, dict[str, float]] = {}
        """Run -> tool call -> when it began."""
        self._runs = Counter("mikan_runs", "Runs that ended, by how.", ("outcome",), registry=registry)
        self._seconds = Histogram("mikan_run_seconds", "Seconds that a run took.", buckets=SECONDS, registry=registry)
        self._turns = Counter("mikan_model_calls", "Model calls of runs that ended.", registry=registry)
        self._tokens = Counter("mikan_tokens", "Tokens of runs that ended.", ("kind",), registry=registry)
        self._cost = Counter("mikan_cost_usd", "What runs that ended cost, in USD.", registry=registry)
        self._tool_calls = Counter("mikan_tool_calls", "Tool calls that ended, by how.", ("state",), registry=registry)
        self._tool_seconds = Histogram(
            "mikan_tool_seconds", "Seconds that a tool call took.", buckets=SECONDS, registry=registry
        )

    def count(self, run: RunRecord, stored: StoredOperation) -> None:
        """Take in an operation that has just become durable; answers of the gateway's own are no runs."""
        if run.kind not in {"message", "scheduled"}:
            return
        match stored.operation:
            case None:
                self._count_run(run.run_id, "cut_off", Usage())
            case RunStarted():
                self._began[run.run_id] = self._now()
            case ToolStatus() as status:
                self._count_tool(run.run_id, status)
            case RunFinished() as finished:
                self._count_run(run.run_id, finished.outcome.value, finished.usage)
            case _:
                pass

    def _count_tool(self, run_id: str, status: ToolStatus) -> None:
        calls = self._calls.setdefault(run_id, {})
        if status.state == "running":
            calls.setdefault(status.call_id, self._now())
            return
        self._tool_calls.labels(status.state).inc()
        began = calls.pop(status.call_id, None)
        if began is not None:
            self._tool_seconds.observe(self._now() - began)

    def _count_run(self, run_id: str, outcome: str, usage: Usage) -> None:
        self._calls.pop(run_id, None)
        began = self._began.pop(run_id, None)
        if began is not None:
            self._seconds.observe(self._now() - began)
        self._runs.labels(outcome).inc()
        self._turns.inc(usage.model_calls)
        self._tokens.labels("input").inc(usage.input_tokens)
        self._tokens.labels("output").inc(usage.output_tokens)
        self._cost.inc(usage.cost_usd)
