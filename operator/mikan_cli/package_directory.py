"""A package in a directory of this machine, packed for the gateway: regular files, without what nobody reviews."""

import io
import os
import tarfile
from pathlib import Path

from mikan_cli.exceptions import PackageUnusable

MAX_BYTES = 64 * 1024 * 1024
_LEFT_OUT = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mikan-ext-dev"})


def pack(directory: Path) -> bytes:
    """The directory as a tar. Blocking.

    Raises:
        PackageUnusable: a link or something else that is no regular file, too much, or not to be read.
    """
    buffer = io.BytesIO()
    try:
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for above, below, files in os.walk(directory):
                below[:] = sorted(set(below) - _LEFT_OUT)
                for name in sorted(files):
                    _add(tar, directory, Path(above) / name)
                for name in below:
                    _refuse_link(directory, Path(above) / name)
                if buffer.tell() > MAX_BYTES:
                    raise PackageUnusable(f"{directory} has more than {MAX_BYTES} bytes")
    except OSError as error:
        raise PackageUnusable(f"{error.filename}: {error.strerror}") from None
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, directory: Path, file: Path) -> None:
    if file.suffix in {".pyc", ".pyo"}:
        return
    _refuse_link(directory, file)
    info = tarfile.TarInfo(str(file.relative_to(directory)))
    info.mode = 0o755 if os.access(file, os.X_OK) else 0o644
    with file.open("rb") as opened:
        info.size = os.fstat(opened.fileno()).st_size
        if info.size > MAX_BYTES:
            raise PackageUnusable(f"{file} has more than {MAX_BYTES} bytes")
        tar.addfile(info, opened)


def _refuse_link(directory: Path, path: Path) -> None:
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        raise PackageUnusable(f"{path.relative_to(directory)} is no regular file; only those are sent")
