"""Names of the workspace on both sides."""

from pathlib import PurePosixPath

import pytest

from mikan_agent.executor.paths import PathContext

CONTEXT = PathContext(PurePosixPath("/workspace"), PurePosixPath("/data/offices"))


@pytest.mark.parametrize(
    ("host", "runtime"),
    [("/data/offices", "/workspace"), ("/data/offices/k/f", "/workspace/k/f")],
)
def test_paths_inside_are_mapped_both_ways(host: str, runtime: str) -> None:
    assert CONTEXT.to_runtime(host) == PurePosixPath(runtime)
    assert CONTEXT.to_host(runtime) == PurePosixPath(host)


@pytest.mark.parametrize("path", ["/data", "/data/offices-2/f", "/data/offices/../f", "relative", "/"])
def test_paths_outside_have_no_counterpart(path: str) -> None:
    assert CONTEXT.to_runtime(path) is None


def test_an_unseen_workspace_has_no_host_paths() -> None:
    context = PathContext(PurePosixPath("/workspace"))

    assert context.to_host("/workspace/f") is None
    assert context.to_runtime("/workspace/f") is None
