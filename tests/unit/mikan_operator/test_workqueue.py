"""The work queue, in virtual time."""

import asyncio
import logging
from collections import Counter
from itertools import pairwise

import pytest

from mikan_operator.workqueue import MAX_BACKOFF, WorkQueue
from mikan_operator_testing.virtual_time import run_virtual


class Recorder:
    """A worker that notes when it was called and answers as told."""

    def __init__(self, takes: float = 0.0, failures: int = 0, later: float | None = None) -> None:
        self.calls: list[tuple[float, str]] = []
        self.active: Counter[str] = Counter()
        self.most_active: Counter[str] = Counter()
        self._takes, self._failures, self._later = takes, failures, later

    async def __call__(self, key: str) -> float | None:
        self.calls.append((asyncio.get_running_loop().time(), key))
        self.active[key] += 1
        self.most_active[key] = max(self.most_active[key], self.active[key])
        await asyncio.sleep(self._takes)
        self.active[key] -= 1
        if self._failures:
            self._failures -= 1
            raise RuntimeError("no")
        later, self._later = self._later, None
        return later


async def _run_for(queue: WorkQueue[str], seconds: float) -> None:
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_key_added_twice_is_worked_on_once() -> None:
    work = Recorder()

    async def scenario() -> None:
        queue = WorkQueue(work)
        queue.add("a")
        queue.add("a")
        queue.add("b")
        await _run_for(queue, 1)

    run_virtual(scenario())
    assert [key for _, key in work.calls] == ["a", "b"]


def test_a_key_added_while_it_is_worked_on_runs_again_after_and_never_beside() -> None:
    work = Recorder(takes=5)

    async def scenario() -> None:
        queue = WorkQueue(work, workers=4)
        queue.add("a")
        task = asyncio.create_task(_run_for(queue, 20))
        await asyncio.sleep(1)
        queue.add("a")
        queue.add("a")
        await task

    run_virtual(scenario())
    assert work.calls == [(0.0, "a"), (5.0, "a")]
    assert work.most_active["a"] == 1


def test_different_keys_run_beside_each_other() -> None:
    work = Recorder(takes=5)

    async def scenario() -> None:
        queue = WorkQueue(work, workers=2)
        for key in ("a", "b", "c"):
            queue.add(key)
        await _run_for(queue, 20)

    run_virtual(scenario())
    assert work.calls == [(0.0, "a"), (0.0, "b"), (5.0, "c")]


def test_failures_back_off_and_a_success_forgets_them(caplog: pytest.LogCaptureFixture) -> None:
    work = Recorder(failures=4)

    async def scenario() -> None:
        queue = WorkQueue(work)
        queue.add("a")
        await _run_for(queue, 60)
        work._failures = 1
        queue.add("a")
        await _run_for(queue, 60)

    with caplog.at_level(logging.CRITICAL):
        run_virtual(scenario())
    assert [round(at, 3) for at, _ in work.calls] == [0.0, 0.5, 1.5, 3.5, 7.5, 60.0, 60.5]


def test_backoff_never_exceeds_its_bound() -> None:
    work = Recorder(failures=30)

    async def scenario() -> None:
        queue = WorkQueue(work)
        queue.add("a")
        await _run_for(queue, 3600)

    run_virtual(scenario())
    times = [at for at, _ in work.calls]
    assert max(after - before for before, after in pairwise(times)) == pytest.approx(MAX_BACKOFF)


def test_what_a_worker_asks_for_happens_once_at_that_time() -> None:
    work = Recorder(later=30)

    async def scenario() -> None:
        queue = WorkQueue(work)
        queue.add("a")
        await _run_for(queue, 100)

    run_virtual(scenario())
    assert work.calls == [(0.0, "a"), (30.0, "a")]


def test_an_earlier_look_replaces_the_appointment() -> None:
    work = Recorder(later=30)

    async def scenario() -> None:
        queue = WorkQueue(work)
        queue.add("a")
        task = asyncio.create_task(_run_for(queue, 100))
        await asyncio.sleep(10)
        queue.add("a")
        await task

    run_virtual(scenario())
    assert work.calls == [(0.0, "a"), (10.0, "a")]


def test_forgetting_a_key_drops_its_appointment() -> None:
    work = Recorder(later=30)

    async def scenario() -> None:
        queue = WorkQueue(work)
        queue.add("a")
        task = asyncio.create_task(_run_for(queue, 100))
        await asyncio.sleep(10)
        queue.forget("a")
        await task

    run_virtual(scenario())
    assert work.calls == [(0.0, "a")]


def test_what_failed_is_tried_at_once_when_what_made_it_fail_is_over() -> None:
    work = Recorder(failures=12)

    async def scenario() -> None:
        queue = WorkQueue(work)
        queue.add("a")
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(300)
        tried = len(work.calls)
        queue.hurry()
        queue.hurry()
        await asyncio.sleep(0.01)
        assert [len(work.calls) - tried, work.calls[-1]] == [1, (pytest.approx(300), "a")]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(scenario())
