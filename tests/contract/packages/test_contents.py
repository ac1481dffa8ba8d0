"""What a package holds is found without running it, and never outside of it."""

import errno
from pathlib import Path

import pytest

from mikan_api.package_contents import MAX_FILE, Contents, discover

ACTIVATE = "def activate(api): ...\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return root


def package(root: Path, files: dict[str, str]) -> Path:
    return tree(root / "package", files)


def extensions(contents: Contents) -> dict[str, str]:
    """Slug -> the entrypoint below the package's directory."""
    return {
        e.slug: "/".join(e.entrypoint.parts[e.entrypoint.parts.index("package") + 1 :]) for e in contents.extensions
    }


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"extension.py": ACTIVATE}, {"board": "extension.py"}),
        ({"__init__.py": ACTIVATE}, {"board": "__init__.py"}),
        ({"__init__.py": "", "lib.py": ACTIVATE}, {}),
        ({"extension.py": "from .lib import activate\n"}, {"board": "extension.py"}),
        ({"extension.py": "async def activate(api): ...\n"}, {"board": "extension.py"}),
        ({"extension.py": "activate = make()\n"}, {"board": "extension.py"}),
        (
            {"extensions/audit.py": ACTIVATE, "extensions/Daily_Report/extension.py": ACTIVATE, "extension.py": ""},
            {"audit": "extensions/audit.py", "daily-report": "extensions/Daily_Report/extension.py"},
        ),
        ({"extensions/_lib.py": "", "extensions/.x.py": "", "extensions/README.md": ""}, {}),
        (
            {"pyproject.toml": '[tool.mikan]\nextensions = ["src/a.py", "src/b", "."]', "src/a.py": ACTIVATE,
             "src/b/__init__.py": ACTIVATE, "extension.py": ACTIVATE, "extensions/c.py": ACTIVATE},
            {"a": "src/a.py", "b": "src/b/__init__.py", "board": "extension.py"},
        ),
        ({"pyproject.toml": '[project]\nname = "x"', "extension.py": ACTIVATE}, {"board": "extension.py"}),
        ({"skills/guide/SKILL.md": "x"}, {}),
    ],
)  # fmt: skip
def test_layouts(tmp_path: Path, files: dict[str, str], found: dict[str, str]) -> None:
    contents = discover(package(tmp_path, files), "board")

    assert extensions(contents) == found
    assert contents.faults == ()


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"extension.py": "x = 1\n"}, "extension.py: defines no activate"),
        ({"extension.py": "x = 1\ndef activate(:\n"}, "extension.py: line 2: invalid syntax"),
        ({"__init__.py": "def ("}, "__init__.py: line 1: invalid syntax"),
        ({"extension.py": "\0"}, "extension.py: line 1: source code string cannot contain null bytes"),
        ({"extension.py": "(" * 5000}, "extension.py: line 1: too many nested parentheses"),
        ({"extension.py": "#" * (MAX_FILE + 1)}, f"extension.py: larger than {MAX_FILE} bytes"),
        ({"extensions/audit/lib.py": ACTIVATE}, "extensions/audit: no extension.py or __init__.py in it"),
        ({"extensions/a.py": ACTIVATE, "extensions/A/extension.py": ACTIVATE}, "extensions/a.py: the name a is taken"),
        ({"pyproject.toml": "tool.mikan.extensions = 1"}, "pyproject.toml: tool.mikan.extensions is a list of paths"),
        ({"pyproject.toml": "[tool]\nmikan = 1"}, "pyproject.toml: tool.mikan is no table"),
        ({"pyproject.toml": "x"}, "pyproject.toml: Expected '=' after a key in a key/value pair (at end of document)"),
        ({"pyproject.toml": '[tool.mikan]\nextensions = ["gone.py"]'}, "gone.py: not there"),
        ({"pyproject.toml": '[tool.mikan]\nextensions = ["../outside.py"]'}, "../outside.py: leads out of the package"),
        ({"pyproject.toml": '[tool.mikan]\nextensions = ["a\\u0000b"]'}, "embedded null byte"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_told(tmp_path: Path, files: dict[str, str], fault: str) -> None:
    tree(tmp_path, {"outside.py": ACTIVATE})

    assert discover(package(tmp_path, files), "board").faults == (fault,)


def test_no_link_leads_out_of_the_package(tmp_path: Path) -> None:
    tree(tmp_path, {"outside.py": ACTIVATE, "elsewhere/SKILL.md": "secret"})
    root = package(tmp_path, {"extensions/fine.py": ACTIVATE, "skills/fine/SKILL.md": "x"})
    (root / "extensions" / "evil.py").symlink_to(tmp_path / "outside.py")
    (root / "skills" / "evil").symlink_to(tmp_path / "elsewhere")
    (root / "pyproject.lock").symlink_to("/etc/passwd")

    contents = discover(root, "board")

    assert extensions(contents) == {"fine": "extensions/fine.py"}
    assert contents.faults == ("extensions/evil.py: leads out of the package",)
    assert [skill.name for skill in contents.skills] == ["fine"]


def test_a_link_to_itself_is_told(tmp_path: Path) -> None:
    root = package(tmp_path, {"pyproject.toml": '[tool.mikan]\nextensions = ["x"]'})
    (root / "x").symlink_to("x")

    assert discover(root, "board").faults == ("Symlink loop from 'x'",)


@pytest.mark.parametrize("folder", ["extensions", "skills"])
def test_what_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    root = package(tmp_path, {f"{folder}/a/SKILL.md": "x"})

    def refused(path: Path) -> None:  # the superuser, who may run the tests, is refused nothing
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refused)

    assert discover(root, "board") == Contents(faults=(f"{folder}: Permission denied",))


def test_a_project_file_that_leads_out_is_not_read(tmp_path: Path) -> None:
    tree(tmp_path, {"outside.toml": "[tool.mikan]\nextensions = []"})
    root = package(tmp_path, {"extension.py": ACTIVATE})
    (root / "pyproject.toml").symlink_to(tmp_path / "outside.toml")

    assert discover(root, "board") == Contents(faults=("pyproject.toml: leads out of the package",))


def test_skills_of_the_package_are_told_from_those_of_an_extension(tmp_path: Path) -> None:
    root = package(
        tmp_path,
        {
            "extensions/audit/extension.py": ACTIVATE,
            "extensions/audit/skills/inner/SKILL.md": "x",
            "skills/outer/SKILL.md": "x",
            "skills/no-skill/README.md": "x",
        },
    )

    assert [(skill.name, skill.extension) for skill in discover(root, "p").skills] == [
        ("outer", None),
        ("inner", "audit"),
    ]


def test_skills_at_the_root_of_an_extension_are_the_packages(tmp_path: Path) -> None:
    root = package(tmp_path, {"extension.py": ACTIVATE, "skills/guide/SKILL.md": "x"})

    assert [(skill.name, skill.extension) for skill in discover(root, "p").skills] == [("guide", None)]


def test_a_package_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert discover(tmp_path / "gone", "gone").faults == ("gone: No such file or directory",)


def test_nothing_is_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    root = package(tmp_path, {"extension.py": f"open({str(ran)!r}, 'w')\ndef activate(api): ...\n"})

    assert len(discover(root, "board").extensions) == 1
    assert not ran.exists()
