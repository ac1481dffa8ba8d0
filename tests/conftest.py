"""Options of the whole test suite, and the end of a test that outlives its time."""

import asyncio
import io
import signal
from asyncio import AbstractEventLoop, new_event_loop
from collections.abc import Callable, Mapping
from types import FrameType

import pytest
import uvloop
from pytest_timeout import Settings


def pytest_addoption(parser: pytest.Parser) -> None:
    """One flag rewrites every golden file; the diff is the review."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files under tests/data")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """The event loop that what is tested runs on: the operator's, or that of gateway, models process and agent."""
    is_operator = "mikan_operator" in item.path.parts
    return {"asyncio": new_event_loop} if is_operator else {"uvloop": uvloop.new_event_loop}


class TimedOut(SystemExit):
    """A test outlived its time.

    pytest-timeout raises an exception that uvloop logs and drops, so that the test waits on for ever: of what a
    signal handler raises, uvloop passes on only SystemExit and KeyboardInterrupt.
    """


def _stacks_of_tasks() -> str:
    """Where each task of the running loop waits; empty outside a loop."""
    told = io.StringIO()
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return ""
    for task in tasks:
        task.print_stack(file=told)
    return told.getvalue()


_ALARM = pytest.StashKey[Callable[[], None]]()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> bool:
    """Time the test by an alarm that ends it whatever loop it runs on."""

    def late(number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        raise TimedOut(f"not at its end after {settings.timeout:g} s\n{_stacks_of_tasks()}")

    def arm() -> None:
        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, settings.timeout)

    def disarm() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.stash[_ALARM] = arm
    item.cancel_timeout = disarm  # type: ignore[attr-defined]  # pytest-timeout calls it
    arm()
    return True


def _arm(item: pytest.Item) -> None:
    # pytest-timeout disarms after a failure, and so would leave its teardown and another run of it untimed.
    if arm := item.stash.get(_ALARM, None):
        arm()


pytest_runtest_setup = pytest_runtest_teardown = pytest.hookimpl(tryfirst=True)(_arm)
