"""Reads a batch of an agent's operations against what is known of its runs. Pure: decides, changes nothing."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from mikan_api.responder import RunFinished, RunOutcome, RunStarted, Usage
from mikan_api.wire import Operation
from mikan_gateway.runtime.board import OfficeWork
from mikan_gateway.storage.operations import StoredOperation
from mikan_gateway.storage.runs import RunChange

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Report:
    """What a batch amounts to: operations ``previous + 1`` to ``last``, none of them known before."""

    previous: int
    last: int
    gap: bool = False
    """Whether a number is missing after ``last``."""
    shown: list[StoredOperation] = field(default_factory=list)
    changes: list[RunChange] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)


def read_report(work: OfficeWork, incarnation: str, operations: Sequence[Operation]) -> Report:
    """Decide what a batch changes. Numbers seen before are ignored; an operation of a run that is over, unknown or
    another process's counts as seen and has no effect."""
    report = Report(work.operation_number, work.operation_number)
    over: set[str] = set()
    started = {run_id for run_id, item in work.items.items() if item.run.started_by == incarnation}
    for operation in operations:
        if operation.number <= report.last:
            continue
        if operation.number > report.last + 1:
            report.gap = True
            break
        report.last = operation.number
        if operation.run_id in over or not _is_mine(work, incarnation, operation.run_id):
            logger.warning(
                "an operation of a run that is not under way",
                extra={"office": work.key, "run": operation.run_id[:80], "operation": operation.operation.type},
            )
            continue
        _read(report, work, incarnation, operation, started)
        if isinstance(operation.operation, RunFinished):
            over.add(operation.run_id)
    return report


def _is_mine(work: OfficeWork, incarnation: str, run_id: str) -> bool:
    item = work.items.get(run_id)
    return item is not None and item.is_run and item.delivered_to == incarnation


def _read(report: Report, work: OfficeWork, incarnation: str, operation: Operation, started: set[str]) -> None:
    match operation.operation:
        case RunStarted():
            if operation.run_id not in started:
                started.add(operation.run_id)
                report.changes.append(RunChange(operation.run_id, "started", incarnation))
        case RunFinished(outcome=RunOutcome.HANDED_BACK):
            # It has begun after all: doing it again could do harm twice.
            begun = operation.run_id in started
            report.changes.append(RunChange(operation.run_id, "cut_off" if begun else "queued"))
            return
        case RunFinished() as finished:
            change = RunChange(operation.run_id, "finished", incarnation, finished.outcome, finished.detail)
            report.changes.append(change)
            report.usage.append(finished.usage)
        case _:
            pass
    report.shown.append(StoredOperation(work.key, incarnation, operation.number, operation.run_id, operation.operation))
