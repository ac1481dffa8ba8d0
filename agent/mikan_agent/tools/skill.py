"""``skill``: the instructions of a skill that the prompt's index names."""

from typing import Protocol

from pydantic import Field

from mikan_agent.skills.skill import Skill
from mikan_agent.tools.tool import HostTool, ToolArguments, ToolOutput, one_line, text_output

MAX_TEXT = 50_000
"""Characters that are given at once; the rest is read as a file."""


class Skills(Protocol):
    """Knows the skills of the office."""

    async def instructions(self, name: str) -> tuple[Skill, str]:
        """A skill and its text.

        Raises:
            ToolError: there is no such skill, or it cannot be read.
        """


class SkillArguments(ToolArguments):
    """Arguments of ``skill``."""

    name: str = Field(description="Name of the skill, as the list of skills has it")


class SkillTool(HostTool):
    """Gives a skill's instructions."""

    name = "skill"
    description = "Load the instructions of a skill from the list of skills, before you do what it is for."
    arguments = SkillArguments
    parallel = True

    def __init__(self, skills: Skills) -> None:
        self._skills = skills

    def label(self, arguments: SkillArguments) -> str:
        """One line for the status of this call."""
        return one_line(arguments.label or f"skill {arguments.name}")

    async def answer(self, arguments: SkillArguments) -> ToolOutput:
        """Give them."""
        skill, text = await self._skills.instructions(arguments.name)
        where = f"Paths in it are relative to {skill.directory}." if skill.directory else "It has no files."
        if len(text) > MAX_TEXT:
            text = f"{text[:MAX_TEXT]}\n[cut here: {len(text)} characters. Its SKILL.md has the rest.]"
        return text_output(f"Instructions of the skill {skill.name}. {where}\n\n{text}")
