"""From an office's declared packages to directories. Offline: what is not on the volume is told, never fetched."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mikan_agent.extensions.extension import Diagnostic
from mikan_api import names
from mikan_api.package_contents import FoundExtension, FoundSkill, discover
from mikan_api.packages import DeclaredPackages, GitSource, Package

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SkillDirectory:
    """A directory of skills that a package or an extension brings."""

    directory: Path
    shown: PurePosixPath | None
    """The same as commands see it; ``None``: they don't, so a skill's text stands for itself."""


@dataclass(frozen=True, slots=True)
class LocatedPackage:
    """A package that is there."""

    slug: str
    extensions: tuple[FoundExtension, ...]
    skills: tuple[SkillDirectory, ...]


@dataclass(frozen=True, slots=True)
class Located:
    """What of the declared packages can be used."""

    packages: tuple[LocatedPackage, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def locate(declared: DeclaredPackages, volume: Path = Path(names.PACKAGES)) -> Located:
    """Look for all of an office's packages. Blocking."""
    resolved = declared.resolve()
    diagnostics = [Diagnostic("packages", fault) for fault in resolved.faults]
    diagnostics += [
        Diagnostic(str(p.source), "shadowed: this office declares the package itself") for p in resolved.shadowed
    ]
    found: list[LocatedPackage] = []
    for package in resolved.active:
        located = _package(package, volume)
        if isinstance(located, Diagnostic):
            diagnostics.append(located)
        else:
            found.append(located[0])
            diagnostics += [Diagnostic(str(package.source), fault) for fault in located[1]]
    return Located(tuple(found), tuple(diagnostics))


def at(directory: Path, slug: str) -> tuple[LocatedPackage, Sequence[str]]:
    """A package by its directory, with what in it can't be used. Blocking."""
    contents = discover(directory, slug)
    return LocatedPackage(slug, contents.extensions, tuple(_skills(contents.skills, slug))), contents.faults


def _package(package: Package, volume: Path) -> tuple[LocatedPackage, Sequence[str]] | Diagnostic:
    source = package.source
    if isinstance(source, GitSource):
        home = volume / "checkouts"
        root, directory = home / source.checkout, home / source.checkout / source.subpath
    else:
        home = root = volume / "local"
        directory = home / source.path.relative_to(f"{names.PACKAGES}/local")
    try:
        real_root, real = root.resolve(strict=True), directory.resolve(strict=True)
    except (OSError, RuntimeError):
        return Diagnostic(str(source), "not on the packages volume; an admin can run `mikan ext install` for it")
    if not real_root.is_relative_to(home.resolve()) or not real.is_relative_to(real_root):
        return Diagnostic(str(source), "leads out of its checkout; it is not loaded")
    return at(real, package.slug)


def _skills(skills: Iterable[FoundSkill], slug: str) -> Iterator[SkillDirectory]:
    for directory, extension in dict.fromkeys((skill.file.parents[1], skill.extension) for skill in skills):
        yield SkillDirectory(directory, PurePosixPath(names.PACKAGES, slug, "skills") if extension is None else None)
