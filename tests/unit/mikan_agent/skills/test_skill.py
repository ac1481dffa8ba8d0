"""What a SKILL.md says."""

from pathlib import PurePosixPath

import pytest

from mikan_agent.front_matter import InvalidFrontMatter
from mikan_agent.skills.skill import Skill, parse_skill

HERE = PurePosixPath("/workspace/key/skills/pdf")

PUBLIC = """\
---
name: pdf
description: >-
  Extracts text from PDF files, fills forms:
  use it when somebody sends a PDF.
license: Apache-2.0
compatibility: needs "poppler"
allowed-tools: Bash(pdftotext:*) Read
metadata:
  author: example-org
  version: "1.0"
  tags: [pdf, forms]
---
# PDF

Run {baseDir}/scripts/fill.py, see [forms](references/forms.md).

---
The end.
"""


def test_the_public_form_is_read_unchanged() -> None:
    skill, text = parse_skill(PUBLIC, HERE)
    assert skill == Skill(
        "pdf", "Extracts text from PDF files, fills forms: use it when somebody sends a PDF.", HERE, listed=True
    )
    assert text == (f"# PDF\n\nRun {HERE}/scripts/fill.py, see [forms](references/forms.md).\n\n---\nThe end.")


def test_base_dir_is_replaced_in_the_description_too_and_stays_where_there_is_no_directory() -> None:
    text = "---\nname: x\ndescription: runs {baseDir}/run.sh\n---\n{baseDir}"
    assert parse_skill(text, HERE) == (Skill("x", f"runs {HERE}/run.sh", HERE), str(HERE))
    assert parse_skill(text, None) == (Skill("x", "runs {baseDir}/run.sh", None), "{baseDir}")


def test_what_is_too_long_for_a_prompt_is_cut_and_no_field_adds_lines() -> None:
    skill, _ = parse_skill(
        f'---\nname: "a\\nb{"x" * 100}"\ndescription: |\n  one\n  # two\n  {"y" * 2000}\n---\n', HERE
    )
    assert (skill.name, len(skill.description)) == ("a b" + "x" * 60 + "…", 1_024)
    assert skill.description.startswith("one # two yyy")


def test_a_skill_that_models_should_not_find_by_themselves_is_not_listed() -> None:
    skill, _ = parse_skill("---\nname: x\ndescription: y\ndisable-model-invocation: true\n---\n", HERE)
    assert not skill.listed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not begin"),
        ("# Just text", "does not begin"),
        ("---\nname: x\ndescription: y\n", "no closing line"),
        ("---\ndescription: y\n---\n", "no name"),
        ("---\nname: 5\ndescription: y\n---\n", "no name"),
        ("---\nname: x\n---\n", "no description"),
        ("---\nname: x\ndescription: ' '\n---\n", "no description"),
        ("---\nname: x\ndescription: [a]\n---\n", "no description"),
        ("---\nname: x\ndescription: a: b\n---\n", "not YAML"),
        ("---\n- a\n---\n", "not a list of"),
        ("---\nname: &a x\ndescription: *a\n---\n", "aliases"),
        ("---\nname: !!python/object/apply:os.system [id]\ndescription: y\n---\n", "not YAML"),
        ("---\nname: x\ndescription: y\nz: " + "[" * 201 + "\n---\n", "more than 200 opening brackets"),
        ("---\nname: x\ndescription: y\nz: " + "{[" * 90 + "\n---\n", "not YAML"),
        ('---\nname: x\ndescription: y\nz: !!int ""\n---\n', "not YAML"),
        ('---\nname: x\ndescription: y\nz: !!bool "x"\n---\n', "not YAML"),
        ('---\nname: x\ndescription: y\nz: !!timestamp "x"\n---\n', "not YAML"),
        ("---\n" + "a: b\n" * 5_000 + "---\n", "longer than"),
    ],
)
def test_what_is_wrong_with_a_header_is_said(text: str, reason: str) -> None:
    with pytest.raises(InvalidFrontMatter, match=reason):
        parse_skill(text, HERE)
