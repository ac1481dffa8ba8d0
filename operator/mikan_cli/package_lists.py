"""What `mikan ext install`, `remove` and `list` do, in the words that admins see."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from mikan_api.exceptions import InvalidPackage
from mikan_api.packages import (
    LOCAL,
    DeclaredPackages,
    Package,
    PackageSource,
    identity_of,
    parse_package_source,
    slugify,
    with_source,
)
from mikan_cli.exceptions import PackageUnusable
from mikan_cli.package_directory import pack
from mikan_cli.packages import Cluster, Conversation, PackageReport


class PackageLists:
    """The lists of packages of one release; ``None`` for a conversation means the one of all offices."""

    def __init__(self, cluster: Cluster, out: TextIO, err: TextIO) -> None:
        self._cluster, self._out, self._err = cluster, out, err

    async def install(self, text: str, where: Conversation | None, *, update: bool = False) -> None:
        """Bring a package onto the volume, then write it into a list.

        Raises:
            CliError, InvalidPackage: the list is as it was.
        """
        if where is not None:
            await self._cluster.here(where)  # before anything is fetched for an office that is not there
        directory = await asyncio.to_thread(_directory, text)
        if directory is not None:
            source = parse_package_source(f"{LOCAL}/{slugify(directory.name)}")
            report = await self._cluster.materialise("put", source, await asyncio.to_thread(pack, directory))
        else:
            source = parse_package_source(text)
            report = await self._cluster.materialise("update" if update else "install", source)
        if where is None:
            await self._cluster.change_everywhere(lambda sources: _added(source, (), sources))
        else:
            everywhere = await self._cluster.everywhere()
            await self._cluster.change_here(where, lambda sources: _added(source, everywhere, sources))
        self._say(_told(report, await self._cluster.offices_namespace(), where))

    async def remove(self, text: str, where: Conversation | None) -> None:
        """Take a package out of a list, by its source or its name.

        Raises:
            CliError: it is not in there, or could not be taken out.
        """
        removed: list[str] = []

        def without(sources: tuple[str, ...]) -> tuple[str, ...]:
            removed[:] = [one for one in sources if _is(one, text)]
            if not removed:
                raise PackageUnusable(f"{text} is not in the list", "See `mikan ext list`.")
            return tuple(one for one in sources if one not in removed)

        if where is None:
            await self._cluster.change_everywhere(without)
        else:
            await self._cluster.change_here(where, without)
        self._say([f"{one} is loaded no more by {where.key if where else 'all offices'}" for one in removed])

    async def show(self, where: Conversation | None) -> None:
        """Print what is declared, and what there is of it on the volume.

        Raises:
            CliError: it can't be read.
        """
        here = await self._cluster.here(where) if where else ()
        resolved = DeclaredPackages(await self._cluster.everywhere(), here).resolve()
        try:
            reports = await self._cluster.status([package.source for package in resolved.active])
            states = [_state(report) for report in reports]
        except PackageUnusable as error:
            self._err.write(f"mikan: {error}\n")
            states = ["unknown"] * len(resolved.active)
        rows = [_row(package, state) for package, state in zip(resolved.active, states, strict=True)]
        rows += [_row(package, "shadowed") for package in resolved.shadowed]
        self._say(_table([("SCOPE", "NAME", "SOURCE", "STATE"), *rows]) if rows else ["No packages."])
        self._err.writelines(f"mikan: {fault}\n" for fault in resolved.faults)

    def _say(self, lines: Sequence[str]) -> None:
        self._out.writelines(f"{line}\n" for line in lines)


def _directory(text: str) -> Path | None:
    """A directory of this machine, where that is what was written."""
    path = Path(text).expanduser()
    return path.resolve() if path.is_dir() else None


def _added(source: PackageSource, everywhere: tuple[str, ...], sources: tuple[str, ...]) -> tuple[str, ...]:
    """A list with a package, which must then be one of those that are loaded."""
    added = with_source(sources, source)
    resolved = DeclaredPackages(everywhere, added).resolve()
    if all(package.source != source for package in resolved.active):
        about = [fault for fault in resolved.faults if fault.startswith(f"{source}:")]
        raise PackageUnusable(about[0] if about else f"{source} would not be loaded")
    return added


def _is(declared: str, asked: str) -> bool:
    """Whether a declared source is meant by what was written: itself, one of its identity, or its name."""
    if declared == asked:
        return True
    with suppress(InvalidPackage):
        source = parse_package_source(declared)
        return slugify(source.name) == asked or source.identity == identity_of(asked)
    return False


def _told(report: PackageReport, offices: str, where: Conversation | None) -> list[str]:
    commit = f" at {report.commit[:12]}" if report.commit else ""
    return [
        f"{report.source}{commit} is installed for {where.key if where else 'every office'}",
        f"  extensions: {', '.join(report.extensions) or 'none'}; skills: {', '.join(report.skills) or 'none'}",
        *([f"  its Secret, if it wants one: {report.secret} in {offices}"] if report.extensions else []),
        "  Running pods are replaced when their turn ends; then it is loaded."
        if where
        else "  The settings hold within two minutes; then running pods are replaced when their turn ends.",
    ]


def _row(package: Package, state: str) -> tuple[str, ...]:
    return package.scope.value, package.slug, str(package.source), state


def _state(report: PackageReport) -> str:
    return report.fault or (f"at {report.commit[:12]}" if report.commit else "there")


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
