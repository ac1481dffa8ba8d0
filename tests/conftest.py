"""Options of the whole test suite."""

from asyncio import AbstractEventLoop, new_event_loop
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_addoption(parser: pytest.Parser) -> None:
    """One flag rewrites every golden file; the diff is the review."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files under tests/data")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """The event loop that what is tested runs on: the operator's, or that of gateway, models process and agent."""
    is_operator = "mikan_operator" in item.path.parts
    return {"asyncio": new_event_loop} if is_operator else {"uvloop": uvloop.new_event_loop}
