"""Writing what a package brings, so that nothing of it is, or leads, outside of its directory.

Files first and links last, all into a directory that is new and ours: no file is ever written through a link.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from mikan_gateway.packages.exceptions import PackageRefused
from mikan_gateway.packages.git import Repository
from mikan_gateway.packages.limits import Limits

_LINK, _PROGRAM, _FILE = "120000", "100755", "100644"
_MAX_TARGET = 4_096


class TreeWriter:
    """Fills one new directory."""

    def __init__(self, root: Path, limits: Limits) -> None:
        self._root, self._limits = root, limits
        self._files = self._bytes = 0

    def file(self, path: str, content: bytes, *, program: bool = False) -> None:
        """Write a file; one of compiled Python is left out, since nobody reviews it.

        Raises:
            PackageRefused: its path is not safe, or it is too much.
        """
        parts = self._checked(path)
        if is_compiled(parts):
            return
        self._count(path, len(content))
        target = self._root.joinpath(*parts)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(
                target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if program else 0o644
            )
        except (FileExistsError, NotADirectoryError):
            raise PackageRefused(f"the path {path!r} is there twice") from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)

    def links(self, links: Iterable[tuple[str, bytes]]) -> None:
        """Make all links, then look where each leads.

        Raises:
            PackageRefused: one leads out.
        """
        made: list[tuple[str, Path]] = []
        for path, target in links:
            place = self._root.joinpath(*self._checked(path))
            self._count(path, len(target))
            if not target or len(target) > _MAX_TARGET or b"\0" in target or target.startswith(b"/"):
                raise PackageRefused(f"the link {path!r} leads out of the package")
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                os.symlink(target, os.fsencode(place))
            except (FileExistsError, NotADirectoryError):
                raise PackageRefused(f"the path {path!r} is there twice") from None
            made.append((path, place))
        root = self._root.resolve()
        for path, place in made:
            if not Path(os.path.realpath(place)).is_relative_to(root):
                raise PackageRefused(f"the link {path!r} leads out of the package")

    def _checked(self, path: str) -> tuple[str, ...]:
        parts = tuple(path.split("/"))
        limits = self._limits
        safe = all(part not in {"", ".", ".."} and part.lower() != ".git" and part.isprintable() for part in parts)
        if not safe or "\\" in path:
            raise PackageRefused(f"the path {path!r} is not safe")
        if len(os.fsencode(path)) > limits.path_bytes or len(parts) > limits.depth:
            raise PackageRefused(
                f"the path {path[:80]!r}… is longer than {limits.path_bytes} bytes or {limits.depth} names"
            )
        return parts

    def _count(self, path: str, size: int) -> None:
        self._files += 1
        self._bytes += size
        limits = self._limits
        if size > limits.file_bytes:
            raise PackageRefused(f"{path!r} has more than {limits.file_bytes} bytes")
        if self._files > limits.files or self._bytes > limits.total_bytes:
            raise PackageRefused(f"it has more than {limits.files} files or {limits.total_bytes} bytes")


def is_compiled(parts: Iterable[str]) -> bool:
    """Whether a path is one of compiled Python."""
    return any(part == "__pycache__" or part.endswith((".pyc", ".pyo")) for part in parts)


def write_commit(repository: Repository, commit: str, root: Path, limits: Limits) -> None:
    """Write a commit's files into a new directory.

    Raises:
        PackageRefused: something in it is not safe, or too much.
        FetchFailed: git does not give it.
    """
    entries = repository.entries(commit)
    for entry in entries:
        if entry.mode not in {_FILE, _PROGRAM, _LINK}:
            raise PackageRefused(f"{entry.path!r} is neither file nor link")
        if entry.size > limits.file_bytes:
            raise PackageRefused(f"{entry.path!r} has more than {limits.file_bytes} bytes")
    writer = TreeWriter(root, limits)
    with repository.blobs() as blobs:
        for entry in entries:
            if entry.mode != _LINK:
                writer.file(entry.path, blobs.read(entry), program=entry.mode == _PROGRAM)
        writer.links([(entry.path, blobs.read(entry)) for entry in entries if entry.mode == _LINK])
    os.sync()
