"""Agents load what is on the volume, from nowhere else, and say what is not there."""

from pathlib import Path, PurePosixPath

import pytest

from mikan_agent.extensions.packages import locate
from mikan_api.packages import DeclaredPackages, GitSource, parse_package_source

ACTIVATE = "def activate(api): ..."
BOARD = "github:acme/tools@v1#board"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    for name in ("checkouts", "local"):
        (tmp_path / name).mkdir()
    return tmp_path


def checkout(volume: Path, text: str) -> Path:
    """A checkout as the gateway leaves it: a link to a tree of a commit."""
    source = parse_package_source(text)
    assert isinstance(source, GitSource)
    tree = volume / "checkouts" / ".trees" / f"{source.checkout}.{'c' * 40}"
    (tree / source.subpath).mkdir(parents=True)
    (volume / "checkouts" / source.checkout).symlink_to(tree.relative_to(volume / "checkouts"))
    return tree / source.subpath


def test_a_checkout_is_found_through_its_link(volume: Path) -> None:
    tree = checkout(volume, BOARD)
    (tree / "extension.py").write_text(ACTIVATE)
    (tree / "skills" / "guide").mkdir(parents=True)
    (tree / "skills" / "guide" / "SKILL.md").write_text("x")

    found = locate(DeclaredPackages(here=(BOARD,)), volume)

    (package,) = found.packages
    assert found.diagnostics == ()
    assert [(e.slug, e.entrypoint) for e in package.extensions] == [("board", tree / "extension.py")]
    assert [(s.directory, s.shown) for s in package.skills] == [
        (tree / "skills", PurePosixPath("/mikan/packages/board/skills"))
    ]


def test_a_path_package_is_used_where_it_is(volume: Path) -> None:
    (volume / "local" / "audit").mkdir()
    (volume / "local" / "audit" / "extension.py").write_text(ACTIVATE)

    found = locate(DeclaredPackages(everywhere=("/mikan/packages/local/audit",)), volume)

    assert [package.slug for package in found.packages] == ["audit"]
    assert found.packages[0].extensions[0].entrypoint == volume / "local" / "audit" / "extension.py"


def test_what_is_missing_is_told_with_the_next_step_and_the_rest_loads(volume: Path) -> None:
    checkout(volume, BOARD).joinpath("extension.py").write_text(ACTIVATE)
    declared = DeclaredPackages(
        everywhere=("github:acme/audit", "github:acme/tools#board", "nonsense", "/mikan/packages/local/gone"),
        here=(BOARD,),
    )

    found = locate(declared, volume)

    missing = "not on the packages volume; an admin can run `mikan ext install` for it"
    assert [package.slug for package in found.packages] == ["board"]
    assert [str(diagnostic) for diagnostic in found.diagnostics] == [
        "packages: nonsense: a package source is github:<owner>/<repository>, https://<host>/<path>.git, "
        "git+https://<host>/<path> or a directory below /mikan/packages/local",
        "github:acme/tools#board: shadowed: this office declares the package itself",
        f"github:acme/audit: {missing}",
        f"/mikan/packages/local/gone: {missing}",
    ]


def test_another_ref_of_a_repository_is_another_checkout(volume: Path) -> None:
    checkout(volume, BOARD).joinpath("extension.py").write_text(ACTIVATE)

    found = locate(DeclaredPackages(here=("github:acme/tools@v2#board",)), volume)

    assert found.packages == ()
    assert "not on the packages volume" in str(found.diagnostics[0])


@pytest.mark.parametrize("where", ["checkout", "subpath", "local"])
def test_no_link_leads_out_of_a_checkout(volume: Path, tmp_path_factory: pytest.TempPathFactory, where: str) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "extension.py").write_text(ACTIVATE)
    source = parse_package_source(BOARD)
    assert isinstance(source, GitSource)
    if where == "checkout":
        (volume / "checkouts" / source.checkout).symlink_to(outside.parent)
        (outside.parent / "board").symlink_to(outside)
    elif where == "subpath":
        tree = checkout(volume, "github:acme/tools@v1")
        (tree / "board").symlink_to(outside)
    else:
        (volume / "local" / "board").symlink_to(outside)
    declared = "/mikan/packages/local/board" if where == "local" else BOARD

    found = locate(DeclaredPackages(here=(declared,)), volume)

    assert found.packages == ()
    assert [d.message for d in found.diagnostics] == ["leads out of its checkout; it is not loaded"]
