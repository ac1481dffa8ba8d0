"""Looking at a package of one's own before anybody installs it: found, imported, and not activated."""

import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mikan_agent.extensions.exceptions import ExtensionError
from mikan_agent.extensions.importing import ImportedExtension
from mikan_agent.front_matter import InvalidFrontMatter
from mikan_agent.skills.skill import parse_skill
from mikan_api.exceptions import InvalidPackage
from mikan_api.package_contents import Contents, FoundExtension, FoundSkill, discover, read_project
from mikan_api.packages import slugify


@dataclass(frozen=True, slots=True)
class Validation:
    """What was found, in lines for people."""

    extensions: tuple[str, ...]
    skills: tuple[str, ...]
    faults: tuple[str, ...]
    notes: tuple[str, ...]


def contents_of(path: Path) -> Contents:
    """What a directory holds, or a single file as an extension. Blocking."""
    path = path.resolve()
    slug = slugify(path.stem if path.is_file() else path.name)
    if path.is_file():
        return Contents((FoundExtension(slug, path, None),))
    contents = discover(path, slug)
    if contents == Contents():
        return Contents(faults=("neither an extension (extension.py, extensions/) nor a skill (skills/*/SKILL.md)",))
    return contents


def validate(path: Path) -> Validation:
    """Import every extension of a package, which runs its top level, and look at its ``activate``; read its skills.

    Blocking.
    """
    contents = contents_of(path)
    faults = [f"{extension.slug}: {fault}" for extension in contents.extensions if (fault := _fault(extension))]
    faults += [f"skill {skill.name}: {fault}" for skill in contents.skills if (fault := _skill_fault(skill))]
    return Validation(
        tuple(extension.slug for extension in contents.extensions),
        tuple(skill.name for skill in contents.skills),
        (*contents.faults, *faults),
        tuple(_notes(path)),
    )


def _fault(extension: FoundExtension) -> str:
    imported = ImportedExtension(extension)
    try:
        return _signature_fault(imported.load())
    except ExtensionError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  whatever its top level raises is what is asked for
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})"
    finally:
        imported.forget()


def _skill_fault(skill: FoundSkill) -> str:
    try:
        parse_skill(skill.file.read_text("utf-8"), None)
    except (InvalidFrontMatter, UnicodeDecodeError) as error:
        return str(error)
    return ""


def _signature_fault(activate: Callable[[Any], Any]) -> str:
    try:
        inspect.signature(activate).bind(object())
    except TypeError as error:
        return f"activate can't be called with one argument: {error}"
    except ValueError:
        pass  # a function without a signature
    return ""


def _notes(path: Path) -> list[str]:
    if not path.is_dir():
        return []
    try:
        needed = read_project(path).get("project", {}).get("dependencies") or []
    except InvalidPackage:
        return []  # a fault already
    if not needed:
        return []
    return [f"dependencies are not installed ({', '.join(map(str, needed))}): only what the agent's image has is there"]
