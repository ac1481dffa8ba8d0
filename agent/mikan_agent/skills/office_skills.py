"""Every skill that an office has: its own before the workspace's before those of packages.

What is wrong with one is logged once, and told to the model, who may have written it, and to nobody else.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.exceptions import ToolError
from mikan_agent.front_matter import InvalidFrontMatter
from mikan_agent.records.exceptions import StorageError
from mikan_agent.skills.place import Found, Place, Shelf
from mikan_agent.skills.skill import Skill, SkillIndex
from mikan_agent.tools.tool import one_line
from mikan_api.layout import Office, Workspace
from mikan_api.settings import DoorPolicy, Layout

logger = logging.getLogger(__name__)

MAX_FAULT = 300


class OfficeSkills:
    """The skills of one office."""

    def __init__(self, office: Office, workspace: Workspace) -> None:
        self._office, self._workspace = office, workspace
        self._shelves: dict[PurePosixPath, Shelf] = {}
        self._found: dict[str, Found] = {}
        self._logged: frozenset[str] = frozenset()

    async def index(self, policy: DoorPolicy, packages: Sequence[Place] = ()) -> SkillIndex:
        """What there is now, and what the door policy lets this office see.

        ``packages``: where packages have theirs, the one that counts first.
        """
        return await asyncio.to_thread(self._index, policy, packages)

    async def instructions(self, name: str) -> tuple[Skill, str]:
        """A skill of the last index, and its text as it is now.

        Raises:
            ToolError: there is no such skill, or it cannot be read any more.
        """
        found = self._found.get(name)
        if found is None or found.skill is None:
            raise ToolError(f"There is no skill {name[:80]!r}. There are: {', '.join(self._found) or 'none'}.")
        try:
            return found.skill, await asyncio.to_thread(found.instructions)
        except (StorageError, InvalidFrontMatter) as error:
            raise ToolError(f"The skill cannot be read: {error}.") from None

    def _index(self, policy: DoorPolicy, packages: Sequence[Place]) -> SkillIndex:
        found: dict[str, Found] = {}
        faults: list[str] = []
        for one in (one for place in (*self._own(policy), *packages) for one in self._shelf(place).look()):
            if one.skill is None:
                faults.append(one_line(f"{one.shown}: {one.fault}", MAX_FAULT))
            elif (other := found.setdefault(one.skill.name, one)).place is one.place and other is not one:
                faults.append(one_line(f"{one.shown}: the name {one.skill.name} is taken by {other.shown}", MAX_FAULT))
        self._log(faults)
        self._found = dict(sorted(found.items()))
        skills = [one.skill for one in self._found.values() if one.skill is not None and one.skill.listed]
        return SkillIndex(skills, faults)

    def _own(self, policy: DoorPolicy) -> Iterator[Place]:
        yield Place(ConfinedDirectory(self._office.directory).directory("skills"), self._office.skills)
        if policy.layout is not Layout.CONVERSATION:
            support = ConfinedDirectory(self._workspace.shared).directory("support")
            yield Place(support.directory("skills"), self._workspace.root / "skills")

    def _shelf(self, place: Place) -> Shelf:
        return self._shelves.setdefault(place.directory.path, Shelf(place))

    def _log(self, faults: Sequence[str]) -> None:
        for fault in faults:
            if fault not in self._logged:
                logger.warning("skill cannot be used: %s", fault)
        self._logged = frozenset(faults)
