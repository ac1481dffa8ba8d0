"""Where skills lie: a directory with one directory for each skill, at whatever depth.

Whoever writes there may be hostile: nothing is followed, and there is a bound to everything that is read.
"""

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.front_matter import MAX_HEADER, InvalidFrontMatter
from mikan_agent.records.exceptions import NotFound, StorageError
from mikan_agent.skills.skill import FILE, Skill, parse_skill

MAX_DEPTH = 4
MAX_NAMES = 500
"""Names of one directory."""
MAX_DIRECTORIES = 400
"""Directories of one place that are looked into."""
MAX_SKILLS = 100
"""Of one place."""
MAX_FILE = 256 * 1024
"""Bytes of a ``SKILL.md``."""
_HEAD = 2 * MAX_HEADER
_LEFT_ALONE = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True)
class Place:
    """One directory of skills."""

    directory: ConfinedDirectory
    shown: PurePosixPath | None
    """The same as commands see it; ``None``: they don't."""


@dataclass(frozen=True, slots=True)
class Found:
    """A ``SKILL.md``, and what became of it."""

    place: Place
    path: str
    """Of its directory, below the place."""
    skill: Skill | None
    fault: str = ""
    """Why it cannot be used."""

    @property
    def shown(self) -> str:
        """Its directory, for people."""
        return str((self.place.shown or PurePosixPath()) / self.path)

    def instructions(self) -> str:
        """The text below its header. Blocks.

        Raises:
            StorageError, InvalidFrontMatter: it cannot be read any more.
        """
        content = self.place.directory.read(f"{self.path}/{FILE}", MAX_FILE)
        return parse_skill(content.decode(errors="replace"), _shown(self.place, self.path))[1]


def _shown(place: Place, path: str) -> PurePosixPath | None:
    return None if place.shown is None else place.shown / path


Signature = tuple[int, int, int]


class Shelf:
    """The skills of one place. What did not change since it was last looked at is not read again."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: dict[str, tuple[Signature, Found]] = {}

    def look(self) -> list[Found]:
        """What there is now, by path. Blocks; whatever is there, nothing is raised."""
        found: list[Found] = []
        known: dict[str, tuple[Signature, Found]] = {}
        for path, signature, fault in self._paths():
            before = self._known.get(path)
            if fault:
                found.append(Found(self._place, path, None, fault))
            elif before is not None and before[0] == signature:
                known[path] = before
                found.append(before[1])
            else:
                known[path] = signature, self._read(path)
                found.append(known[path][1])
            if len(found) == MAX_SKILLS:
                found.append(Found(self._place, "", None, f"there are more than {MAX_SKILLS} skills"))
                break
        self._known = known
        return found

    def _read(self, path: str) -> Found:
        try:
            with self._place.directory.open(f"{path}/{FILE}") as file:
                head = file.read(_HEAD)
            skill, _ = parse_skill(head.decode(errors="replace"), _shown(self._place, path))
        except (StorageError, InvalidFrontMatter) as error:
            return Found(self._place, path, None, str(error))
        return Found(self._place, path, skill)

    def _paths(self) -> Iterator[tuple[str, Signature, str]]:
        """Directories with a ``SKILL.md``, the upper ones first, and what keeps others from being looked into."""
        waiting, looked_into = [""], 0
        while waiting:
            above = waiting.pop(0)
            if looked_into == MAX_DIRECTORIES:
                yield above, (0, 0, 0), f"more than {MAX_DIRECTORIES} directories; this one and others are left out"
                return
            looked_into += 1
            try:
                names = self._place.directory.names(above, MAX_NAMES)
            except NotFound:
                continue
            except StorageError as error:
                yield above, (0, 0, 0), str(error)
                continue
            for name in names:
                if name.startswith(".") or name in _LEFT_ALONE:
                    continue
                path = f"{above}/{name}" if above else name
                fault, signature, deeper = self._look_at(path)
                if fault or signature:
                    yield path, signature or (0, 0, 0), fault
                elif deeper and path.count("/") + 1 < MAX_DEPTH:
                    waiting.append(path)

    def _look_at(self, path: str) -> tuple[str, Signature | None, bool]:
        """What is wrong with a path, what its ``SKILL.md`` is, and whether to look below it."""
        try:
            mode = self._place.directory.stat(path).st_mode
            if stat.S_ISLNK(mode):
                return "it is a link, which is not followed", None, False
            if not stat.S_ISDIR(mode):
                return "", None, False
            about = self._place.directory.stat(f"{path}/{FILE}")
        except NotFound:
            return "", None, True
        except StorageError as error:
            return str(error), None, False
        return "", (about.st_ino, about.st_mtime_ns, about.st_size), False
