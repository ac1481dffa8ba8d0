"""Each image installs one extra: what a package imports must be in it, or the process fails where nobody tested it."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {"mikan_api", "mikan_operator", "mikan_gateway", "mikan_agent", "mikan_cli"}
DISTRIBUTIONS = packages_distributions()
GENERATOR = ROOT / "crds/mikan_api/crd.py"
"""Writes the CRDs while we develop; no process runs it."""


def imported(directory: Path, but_not: Path | None = None) -> Iterator[tuple[str, str]]:
    """Top-level modules of others that a directory's files import, lazily or not, and where."""
    for file in directory.rglob("*.py"):
        if but_not is not None and file.is_relative_to(but_not):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                module = name.partition(".")[0]
                if module not in sys.stdlib_module_names | OURS:
                    yield module, str(file.relative_to(ROOT))


def brought(declared: list[str]) -> set[str]:
    """The distributions that requirements bring, with what those need in turn."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in declared]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in found:
            continue
        found.add(name)
        for needed in map(Requirement, requires(wanted.name) or ()):
            chosen = ({"extra": extra} for extra in (wanted.extras or {""}))
            if needed.marker is None or any(needed.marker.evaluate(extra) for extra in chosen):
                waiting.append(needed)
    return found


@pytest.mark.parametrize(
    ("package", "extra"),
    [
        ("crds/mikan_api", ""),
        ("operator/mikan_operator", "operator"),
        ("operator/mikan_cli", "cli"),
        ("gateway/mikan_gateway", "gateway"),
        ("gateway/mikan_gateway/models", "models"),
        ("agent/mikan_agent", "agent"),
    ],
)
def test_an_extra_has_everything_that_its_package_imports(package: str, extra: str) -> None:
    there = brought([*PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] if extra else [])])
    but_not = {"gateway": ROOT / "gateway/mikan_gateway/models", "": GENERATOR}.get(extra)
    missing = {
        f"{module} ({file})"
        for module, file in imported(ROOT / package, but_not)
        if not {canonicalize_name(name) for name in DISTRIBUTIONS.get(module, [module])} & there
    }
    assert missing == set()
