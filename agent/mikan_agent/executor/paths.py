"""Which path of this process is which path of a command."""

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class PathContext:
    """Two names of one workspace: ``host_root`` as this process sees it, ``runtime_root`` as commands do.

    ``host_root`` is None where this process does not see the workspace at all. This is a mapping of names, no
    confinement: what lies outside the roots, by ``..`` too, has no counterpart.
    """

    runtime_root: PurePosixPath
    host_root: PurePosixPath | None = None

    def to_runtime(self, host_path: str | PurePosixPath) -> PurePosixPath | None:
        """The commands' name of a path of this process, or None."""
        return None if self.host_root is None else _rebase(host_path, self.host_root, self.runtime_root)

    def to_host(self, runtime_path: str | PurePosixPath) -> PurePosixPath | None:
        """This process's name of a path of the commands, or None."""
        return None if self.host_root is None else _rebase(runtime_path, self.runtime_root, self.host_root)


def _rebase(path: str | PurePosixPath, old: PurePosixPath, new: PurePosixPath) -> PurePosixPath | None:
    pure = PurePosixPath(path)
    if ".." in pure.parts or not pure.is_relative_to(old):
        return None
    return new / pure.relative_to(old)
