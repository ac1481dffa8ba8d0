"""One skill: what its ``SKILL.md`` says, checked as far as a model's prompt needs it.

The public form (agentskills.io, "Specification") has more fields; they are allowed and say nothing here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from mikan_agent.front_matter import InvalidFrontMatter, split_front_matter
from mikan_agent.tools.tool import one_line

FILE = "SKILL.md"
MAX_NAME = 64
MAX_DESCRIPTION = 1_024
BASE_DIR = "{baseDir}"


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as a prompt's index names it."""

    name: str
    description: str
    directory: PurePosixPath | None
    """Where commands see its files; ``None``: they don't, so its text stands for itself."""
    listed: bool = True
    """Its author wants models to find it by themselves."""


@dataclass(frozen=True, slots=True)
class SkillIndex:
    """What a prompt says of skills."""

    skills: Sequence[Skill] = ()
    """By name."""
    faults: Sequence[str] = ()
    """One line for each that cannot be used."""


def parse_skill(text: str, directory: PurePosixPath | None) -> tuple[Skill, str]:
    """A skill and its instructions.

    Raises:
        InvalidFrontMatter: the message says why, for whoever wrote the file.
    """
    fields, body = split_front_matter(text)
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not name.strip():
        raise InvalidFrontMatter("its header has no name")
    if not isinstance(description, str) or not description.strip():
        raise InvalidFrontMatter("its header has no description")
    skill = Skill(
        name=one_line(name, MAX_NAME),
        description=one_line(located(description, directory), MAX_DESCRIPTION),
        directory=directory,
        listed=fields.get("disable-model-invocation") is not True,
    )
    return skill, located(body, directory)


def located(text: str, directory: PurePosixPath | None) -> str:
    """The text with the skill's own directory in place of ``{baseDir}``."""
    return text if directory is None else text.replace(BASE_DIR, str(directory))
