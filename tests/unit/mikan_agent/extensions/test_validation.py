"""`mikan ext validate`: what an author hears before anybody installs anything."""

import subprocess
import sys
from pathlib import Path

import pytest

ACTIVATE = "def activate(api): ...\n"


def validate(path: Path) -> tuple[int, list[str], list[str]]:
    """Exit code, and the lines on both streams."""
    argv = [sys.executable, "-P", "-m", "mikan_agent.extensions", "validate", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def package(tmp_path: Path, **files: str) -> Path:
    for name, content in files.items():
        file = tmp_path / "board" / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        (file if file.suffix else file.with_suffix(".py")).write_text(content)
    return tmp_path / "board"


def test_a_good_package_is_listed_and_not_activated(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    root = package(tmp_path, extension=f"def activate(api): open({str(ran)!r}, 'w')\n")
    (root / "skills" / "guide").mkdir(parents=True)
    (root / "skills" / "guide" / "SKILL.md").write_text("---\nname: guide\ndescription: How to.\n---\nSo.\n")

    assert validate(root) == (0, ["extension board", "skill guide"], [])
    assert not ran.exists()


def test_a_skill_that_no_model_would_be_told_of_is_a_fault(tmp_path: Path) -> None:
    root = package(tmp_path, extension=ACTIVATE)
    (root / "skills" / "guide").mkdir(parents=True)
    (root / "skills" / "guide" / "SKILL.md").write_text("---\nname: guide\n---\nSo.\n")

    code, listed, faults = validate(root)
    assert (code, listed) == (1, ["extension board", "skill guide"])
    assert faults == ["fault: skill guide: its header has no description"]


def test_a_single_file_will_do(tmp_path: Path) -> None:
    assert validate(package(tmp_path, audit=ACTIVATE) / "audit.py") == (0, ["extension audit"], [])


def test_its_own_modules_are_found(tmp_path: Path) -> None:
    root = package(tmp_path, extension="from .lib import activate\n", lib=ACTIVATE)

    assert validate(root) == (0, ["extension board"], [])


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (f"import nowhere\n{ACTIVATE}", "ModuleNotFoundError: No module named 'nowhere' (extension.py, line 1)"),
        (f"{ACTIVATE}1 / 0\n", "ZeroDivisionError: division by zero (extension.py, line 2)"),
        ("def activate(): ...\n", "activate can't be called with one argument: too many positional arguments"),
        ("def activate(a, b): ...\n", "activate can't be called with one argument: missing a required argument: 'b'"),
        ("activate = 7\n", "it defines no function activate(api)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, code: str, fault: str) -> None:
    assert validate(package(tmp_path, extension=code)) == (1, ["extension board"], [f"fault: board: {fault}"])


def test_dependencies_are_not_installed_which_is_said(tmp_path: Path) -> None:
    root = package(tmp_path, extension=ACTIVATE)
    (root / "pyproject.toml").write_text('[project]\nname = "board"\ndependencies = ["requests>=2"]\n')

    assert validate(root) == (
        0,
        ["extension board"],
        ["note: dependencies are not installed (requests>=2): only what the agent's image has is there"],
    )


def test_nothing_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert validate(tmp_path / "empty") == (
        1,
        [],
        ["fault: neither an extension (extension.py, extensions/) nor a skill (skills/*/SKILL.md)"],
    )
    assert validate(tmp_path / "gone") == (1, [], [f"{tmp_path / 'gone'}: not there"])


def test_one_in_the_current_directory_does_not_shadow_the_standard_library(tmp_path: Path) -> None:
    root = package(tmp_path, extension=ACTIVATE, json="raise RuntimeError('imported')\n")
    argv = [sys.executable, "-P", "-m", "mikan_agent.extensions", "validate", "."]

    assert subprocess.run(argv, cwd=root, check=False, capture_output=True).returncode == 0
