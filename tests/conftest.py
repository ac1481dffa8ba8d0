"""Options of the whole test suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """One flag rewrites every golden file; the diff is the review."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files under tests/data")
