"""Having packages on the volume: fetched where they are not, looked through, and told what they hold."""

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from mikan_api import names
from mikan_api.base import ApiModel
from mikan_api.package_contents import discover
from mikan_api.packages import GitSource, PackageSource, PathSource, slugify
from mikan_gateway.packages.archive import unpack
from mikan_gateway.packages.exceptions import PackageRefused
from mikan_gateway.packages.git import Repository
from mikan_gateway.packages.limits import Limits
from mikan_gateway.packages.trees import write_commit
from mikan_gateway.packages.volume import Volume


class PackageReport(ApiModel):
    """A package as it is on the volume."""

    source: str
    slug: str
    commit: str = ""
    """Empty for a path package."""
    secret: str
    """Name of the Secret that its extensions read, in the offices namespace."""
    extensions: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    fault: str = ""
    """Why it can't be used."""


class Installer:
    """Brings packages onto the volume. All methods block."""

    def __init__(self, volume: Volume, limits: Limits | None = None, *, loopback: bool = False) -> None:
        self._volume, self._limits, self._loopback = volume, limits or Limits(), loopback

    def install(self, source: PackageSource, *, update: bool = False) -> PackageReport:
        """Have a package there. One that is there is kept; with ``update`` its ref is looked up anew.

        Raises:
            PackageError: it can't be had, or not be used; then nothing has changed.
        """
        with self._volume.locked():
            if isinstance(source, GitSource):
                present = self._volume.commit(source)
                if present is None or (update and not source.pinned):
                    self._fetch(source)
            report = _usable(self._report(source))
            self._volume.show_skills(source)
            return report

    def put(self, source: PathSource, archive: BinaryIO) -> PackageReport:
        """Make what a tar holds a local package; one of that path is replaced.

        Raises:
            PackageError: it can't be used; then nothing has changed.
        """
        with self._volume.locked():
            with self._volume.scratch("local") as scratch:
                tree = scratch / "tree"
                tree.mkdir(0o755)
                unpack(archive, tree, self._limits)
                report = _usable(_look(source, tree, tree))
                self._volume.replace_local(source, tree)
            self._volume.show_skills(source)
            return report

    def status(self, sources: Iterable[PackageSource]) -> list[PackageReport]:
        """What there is of some packages."""
        return [self._report(source) for source in sources]

    def _fetch(self, source: GitSource) -> None:
        with self._volume.scratch() as scratch:
            repository = Repository(scratch / "repository", self._limits, loopback=self._loopback)
            commit = repository.fetch(source)
            tree = scratch / "tree"
            tree.mkdir(0o755)
            write_commit(repository, commit, tree, self._limits)
            _usable(_look(source, tree, tree / source.subpath))
            self._volume.publish(source, commit, tree)

    def _report(self, source: PackageSource) -> PackageReport:
        report = _look(source, self._volume.root(source), self._volume.directory(source))
        commit = self._volume.commit(source) if isinstance(source, GitSource) else None
        return report.model_copy(update={"commit": commit or ""})


def _usable(report: PackageReport) -> PackageReport:
    if report.fault:
        raise PackageRefused(f"{report.source}: {report.fault}")
    return report


def _look(source: PackageSource, root: Path, directory: Path) -> PackageReport:
    """What a directory holds; it must not leave ``root``."""
    slug = slugify(source.name)
    contents = discover(directory, slug)
    faults = list(contents.faults)
    if not root.is_dir():
        faults = ["not there"]
    elif not directory.is_dir():
        faults = ["the repository has no such directory"]
    elif not directory.resolve().is_relative_to(root.resolve()):
        faults = ["its subpath leads out of the repository"]
    elif not (contents.extensions or contents.skills or faults):
        faults = ["it holds neither an extension nor a skill"]
    return PackageReport(
        source=str(source),
        slug=slug,
        secret=names.extension_secret(slug),
        extensions=tuple(extension.slug for extension in contents.extensions),
        skills=tuple(skill.name for skill in contents.skills),
        fault="; ".join(faults),
    )
