"""Script files."""

from pathlib import Path

import pytest

from mikan_api.exceptions import ConfigError
from mikan_gateway.models.scripted.player import fill
from mikan_gateway.models.scripted.script import read_scripts


def test_scripts_of_a_directory_stand_beside_the_built_in_ones(tmp_path: Path) -> None:
    (tmp_path / "greeter.json").write_text('{"rules": [{"match": "", "steps": [{"say": "hi"}]}]}')
    (tmp_path / "notes.txt").write_text("not a script")

    assert sorted(read_scripts(tmp_path)) == ["demo", "greeter"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("rules: []", "script bad.yaml: rules: Tuple should have at least 1 item"),
        ("rules: [{match: '(', steps: [{say: x}]}]", "script bad.yaml: rules.0.match: Value error, not a regular"),
        ("rules: [{match: x, steps: [{shout: x}]}]", "script bad.yaml: rules.0.steps.0.shout: Extra inputs"),
        ("rules: [", "script bad.yaml cannot be read: while parsing"),
        ("!!python/object/apply:os.system [id]", "script bad.yaml cannot be read: could not determine a constructor"),
    ],
)
def test_a_bad_script_says_where(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)

    with pytest.raises(ConfigError) as caught:
        read_scripts(tmp_path)

    assert str(caught.value).startswith(fault)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none does not exist"):
        read_scripts(tmp_path / "none")


def test_templates_are_filled_once_and_unknown_names_stay() -> None:
    assert fill("{a} {b} {c} {{a}} {}", {"a": "{b}", "b": "B"}) == "{b} B {c} {a} {}"
