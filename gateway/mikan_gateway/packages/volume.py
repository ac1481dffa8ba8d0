"""The packages volume, as it is laid out in `mikan_api.packages`: what is put there appears at once or not at all.

A checkout is a link to a tree that never changes, so that an agent which loads one while it is replaced sees the old or
the new. The tree before the present one is kept: pods that run may still read it.
"""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from mikan_api.packages import LOCAL, GitSource, PackageSource, PathSource
from mikan_gateway.packages.exceptions import VolumeMissing

_TREES = ".trees"
_COMMIT = re.compile(r"\.([0-9a-f]{40})")
KEPT_TREES = 2


class Volume:
    """Checkouts, local packages and skills below one directory. All methods block."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def _trees(self) -> Path:
        return self._root / "checkouts" / _TREES

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only one to change anything; what a process that was killed left half done is gone.

        Raises:
            VolumeMissing: there is no volume, or it can't be written to.
        """
        try:
            for name in ("checkouts/.trees", "local", "skills", "data"):
                (self._root / name).mkdir(parents=True, exist_ok=True)
            lock = os.open(self._root / "checkouts" / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
        except OSError as error:
            raise VolumeMissing(f"the packages volume can't be used: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in (*self._trees.glob(".new-*"), *(self._root / "local").glob(".new-*")):
                _remove(left)
            yield
        finally:
            os.close(lock)

    @contextmanager
    def scratch(self, below: str = "checkouts/.trees") -> Iterator[Path]:
        """A new directory on the volume; whatever of it is still there is removed."""
        path = Path(tempfile.mkdtemp(prefix=".new-", dir=self._root / below))
        path.chmod(0o755)
        try:
            yield path
        finally:
            _remove(path)

    def directory(self, source: PackageSource) -> Path:
        """Where a package is, or would be."""
        if isinstance(source, GitSource):
            return self._root / "checkouts" / source.checkout / source.subpath
        return self._root / "local" / source.path.relative_to(LOCAL)

    def root(self, source: PackageSource) -> Path:
        """What a package must not leave: its checkout, or itself."""
        return self._root / "checkouts" / source.checkout if isinstance(source, GitSource) else self.directory(source)

    def commit(self, source: GitSource) -> str | None:
        """The commit that is checked out for a source's repository and ref."""
        link = self._root / "checkouts" / source.checkout
        try:
            found = _COMMIT.fullmatch(PurePosixPath(os.readlink(link)).suffix)
        except OSError:
            return None
        return found[1] if found and link.is_dir() else None

    def publish(self, source: GitSource, commit: str, tree: Path) -> None:
        """Make a tree the checkout of a source's repository and ref."""
        final = self._trees / f"{source.checkout}.{commit}"
        if final.is_dir():
            os.utime(final)
        else:
            os.rename(tree, final)
        self._link(self._root / "checkouts" / source.checkout, PurePosixPath(_TREES, final.name))
        trees = sorted(self._trees.glob(f"{source.checkout}.*"), key=lambda path: path.stat().st_mtime_ns)
        for old in trees[:-KEPT_TREES]:
            _remove(old)

    def replace_local(self, source: PathSource, tree: Path) -> None:
        """Make a tree a local package; one that was there is gone."""
        place = self.directory(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        with self.scratch("local") as old:
            with suppress(FileNotFoundError):
                os.rename(place, old / "old")
            os.rename(tree, place)

    def show_skills(self, source: PackageSource) -> None:
        """Have sandboxes find a package's skills; of one without, an empty directory.

        A link that leads nowhere would keep their pods from starting.
        """
        skills = self._root / "skills"
        place = skills / source.skills
        relative = PurePosixPath("..", *self.directory(source).relative_to(self._root).parts, "skills")
        if (skills / relative).is_dir():
            self._link(place, relative)
        else:
            _empty(place)
        for link in skills.iterdir():
            if link.is_symlink() and not link.is_dir():
                _empty(link)

    def _link(self, place: Path, target: PurePosixPath) -> None:
        """Put a link in the place of what is there: a link, or an empty directory that the kubelet made."""
        if place.is_dir() and not place.is_symlink():
            place.rmdir()
        new = self._trees / f".new-{os.getpid()}-link"
        with suppress(FileNotFoundError):
            new.unlink()
        new.symlink_to(target)
        os.replace(new, place)


def _empty(place: Path) -> None:
    if place.is_symlink():
        place.unlink()
    place.mkdir(exist_ok=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
