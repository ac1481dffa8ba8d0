"""Built-in profiles, and what files in agents/ make of them."""

from datetime import timedelta
from pathlib import Path

import pytest

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.subagents.profiles import BUILT_IN, Caps, Profiles, load_profiles
from mikan_api.settings import ThinkingLevel


def load(root: Path, **files: str) -> Profiles:
    for name, text in files.items():
        (root / f"{name.replace('_', '-')}.md").write_text(text)
    return load_profiles(ConfinedDirectory(root))


def test_nine_are_built_in() -> None:
    assert list(BUILT_IN) == [
        "worker",
        "software-engineer",
        "devops-engineer",
        "data-scientist",
        "account-manager",
        "business-development",
        "creative-producer",
        "ad-operations-specialist",
        "analysis-only",
    ]
    assert {profile.caps for profile in BUILT_IN.values()} == {Caps(100, 10.0, timedelta(minutes=10))}
    assert BUILT_IN["analysis-only"].tools == ("read", "history")


def test_without_a_directory_there_are_the_built_in_ones(tmp_path: Path) -> None:
    assert load_profiles(ConfinedDirectory(tmp_path / "none")) == Profiles(BUILT_IN)


def test_a_file_patches_the_built_in_profile_of_its_name(tmp_path: Path) -> None:
    text = "---\nmodel: other/small\nthinkingLevel: high\nmaxTurns: 5\nmaxDuration: 1m\n---\n"
    worker = load(tmp_path, worker=text).by_name["worker"]
    assert (worker.model, worker.thinking_level) == ("other/small", ThinkingLevel.HIGH)
    assert worker.caps == Caps(5, 10.0, timedelta(minutes=1))
    assert (worker.instructions, worker.tools) == (BUILT_IN["worker"].instructions, BUILT_IN["worker"].tools)


def test_a_cap_above_the_usual_one_raises_nothing(tmp_path: Path) -> None:
    text = "---\nmaxTurns: 5000\nmaxCostUsd: 900\nmaxDuration: 24h\n---\n"
    assert load(tmp_path, worker=text).by_name["worker"].caps == Caps()


def test_a_new_profile_states_its_tools(tmp_path: Path) -> None:
    text = "---\nname: lawyer\ndescription: reads contracts\ntools: read, history\n---\nRead closely.\n"
    lawyer = load(tmp_path, lawyer=text).by_name["lawyer"]
    assert (lawyer.description, lawyer.instructions, lawyer.tools) == (
        "reads contracts",
        "Read closely.",
        ("read", "history"),
    )


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (
            "lawyer",
            "---\ndescription: d\n---\nRead.",
            "a new profile needs tools (which tools it may use; [] for none)",
        ),
        ("lawyer", "---\ntools: []\n---\n", "a new profile needs description, instructions below the header"),
        ("lawyer", "Read.", "it does not begin with a line '---'"),
        ("lawyer", "---\ntools: [\n", "its header has no closing line '---'"),
        ("lawyer", "---\ntools: [\n---\n", "its header is not YAML: expected the node content, but found"),
        ("lawyer", "---\n- a\n---\n", "its header is not a list of 'name: value' lines"),
        ("lawyer", "---\na: &x [1]\nb: *x\n---\n", "its header uses YAML aliases, which are not read"),
        ("worker", "---\nname: other\n---\n", "its name is 'other', but the file is called worker.md"),
        ("worker", "---\nmaxTurns: 0\nmodle: x\n---\n", "maxTurns:"),
        (
            "Upper",
            "---\ntools: []\ndescription: d\n---\nx",
            "a profile's name has small letters, digits and single dashes",
        ),
    ],
)
def test_a_malformed_file_is_a_diagnostic_and_is_skipped(tmp_path: Path, name: str, text: str, reason: str) -> None:
    profiles = load(tmp_path, **{name: text})
    assert dict(profiles.by_name) == BUILT_IN
    (diagnostic,) = profiles.diagnostics
    assert diagnostic.startswith(f"agents/{name}.md is skipped: {reason}")


def test_a_link_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("---\nmodel: a/b\n---\n")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "worker.md").symlink_to(tmp_path / "secret")
    profiles = load_profiles(ConfinedDirectory(tmp_path / "agents"))
    assert dict(profiles.by_name) == BUILT_IN
    assert profiles.diagnostics[0].startswith("agents/worker.md is skipped: ")
