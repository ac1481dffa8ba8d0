"""A directory of an admin's machine, sent as a tar: regular files and directories only.

Links and device files are refused, whatever they point at; owners, times and modes are not taken over.
"""

import tarfile
from pathlib import Path
from typing import BinaryIO, cast

from mikan_gateway.packages.exceptions import PackageRefused
from mikan_gateway.packages.limits import Limits
from mikan_gateway.packages.trees import TreeWriter


def unpack(stream: BinaryIO, root: Path, limits: Limits) -> None:
    """Write what a stream holds into a new directory.

    Raises:
        PackageRefused: no tar, something in it is not safe, or too much.
    """
    writer = TreeWriter(root, limits)
    members = 0
    try:
        # Not compressed: what is read is what has to be held.
        with tarfile.open(fileobj=cast(BinaryIO, _Bounded(stream, limits)), mode="r|") as tar:
            for member in tar:
                members += 1
                if members > 2 * limits.files:
                    raise PackageRefused(f"it has more than {limits.files} files")
                _write(tar, member, writer, limits)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise PackageRefused(f"what was sent is no whole tar archive ({type(error).__name__})") from None


class _Bounded:
    """A stream that ends in a refusal where it is longer than any package's archive."""

    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self._stream, self._limits = stream, limits
        self._left = limits.total_bytes + limits.files * 4 * tarfile.RECORDSIZE

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes."""
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise PackageRefused(f"it has more than {self._limits.total_bytes} bytes")
        return content


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, writer: TreeWriter, limits: Limits) -> None:
    name = member.name.removeprefix("./")
    if member.isdir():
        return
    if not member.isreg() or member.sparse is not None:
        raise PackageRefused(f"{name!r} is no regular file")
    if member.size > limits.file_bytes:
        raise PackageRefused(f"{name!r} has more than {limits.file_bytes} bytes")
    content = tar.extractfile(member)
    if content is None:
        raise PackageRefused(f"{name!r} is no regular file")
    writer.file(name, content.read(), program=bool(member.mode & 0o100))
