"""Debian root file systems as layers, and programs run inside one.

mmdebstrap takes Debian's packages by the machine's own apt settings, so a mirror or proxy set up there is used here.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from os import environ
from pathlib import Path

from mikan_dev.exceptions import DevError
from mikan_dev.oci import Blob, ImageStore
from mikan_dev.programs import run, step, which

SUITE = "bookworm"
"""Debian 12: its `python3` is Python 3.11."""

PYTHON_PACKAGES = ("ca-certificates", "libpython3-stdlib", "python3-minimal", "tzdata")
GATEWAY_PACKAGES = (*PYTHON_PACKAGES, "git")
SANDBOX_PACKAGES = (*PYTHON_PACKAGES, "curl", "git", "less", "openssh-client", "procps")

LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")


def debian(store: ImageStore, packages: Sequence[str]) -> Blob:
    """Layer with Debian's minimal base, bash and coreutils included, and some packages more."""
    key = f"debian 2 {SUITE} {' '.join(packages)}"
    return store.layer(key, lambda out: _bootstrap(packages, out))


def _bootstrap(packages: Sequence[str], out: Path) -> None:
    require_root()
    excludes = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    with step(f"Debian {SUITE} with {', '.join(packages)}"):
        run(
            which("mmdebstrap"),
            "--quiet",
            "--format=tar",
            "--variant=minbase",
            f"--include={','.join(packages)}",
            "--dpkgopt=force-unsafe-io",
            *excludes,
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
            # Debian compiles the standard library only where the package `python3` itself is installed.
            '--customize-hook=chroot "$1" python3.11 -m compileall -q /usr/lib/python3.11',
            SUITE,
            out,
            *_apt_sources(),
        )


def _apt_sources() -> list[Path]:
    """The machine's own list of Debian mirrors, where it has this suite; else mmdebstrap takes its default mirror."""
    named = environ.get("MIKAN_IMAGES_APT_SOURCES")
    candidates = [Path(named)] if named else []
    candidates += [Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")]
    return [file for file in candidates if file.exists() and SUITE in file.read_text()][:1]


def require_root() -> None:
    """Building without Docker unpacks device files and enters a root file system.

    Raises:
        DevError: We are not root.
    """
    if os.geteuid() != 0:
        raise DevError("building images without Docker needs root: run as root, or start Docker")


def accounts(store: ImageStore, base: Blob, shell: str) -> bytes:
    """Tar with the user and group `mikan` (10001) added to the base's own, and that user's home."""
    buffer = io.BytesIO()
    with tarfile.open(store.path(base)) as below, tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, line in (
            ("etc/passwd", f"mikan:x:10001:10001::/home/mikan:{shell}\n"),
            ("etc/group", "mikan:x:10001:\n"),
        ):
            add_file(tar, path, _content(below, path) + line.encode())
        add_directory(tar, "home/mikan", owner=10001, mode=0o750)
    return buffer.getvalue()


def _content(tar: tarfile.TarFile, path: str) -> bytes:
    member = tar.extractfile("./" + path)
    if member is None:
        raise DevError(f"{path} is missing in the base layer: remove the cache's `oci` directory and build again")
    return member.read()


def add_file(tar: tarfile.TarFile, path: str, data: bytes, mode: int = 0o644) -> None:
    """Add a file of root's with a fixed time, so that equal content gives an equal layer."""
    info = tarfile.TarInfo(path)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))


def add_link(tar: tarfile.TarFile, path: str, target: str) -> None:
    """Add a symbolic link."""
    info = tarfile.TarInfo(path)
    info.type, info.linkname = tarfile.SYMTYPE, target
    tar.addfile(info)


def add_directory(tar: tarfile.TarFile, path: str, *, owner: int = 0, mode: int = 0o755) -> None:
    """Add a directory owned by one user and its group."""
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, mode, owner, owner
    tar.addfile(info)


def pack(directory: Path, out: Path) -> None:
    """Tar a directory as root's files with fixed times and order."""
    run(
        *("tar", "-C", directory, "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"),
        *("--hard-dereference", "-cf", out, "."),
    )


def run_inside(store: ImageStore, base: Blob, cache: Path, directory: Path, at: str, command: Sequence[str]) -> str:
    """Run a program of the base's with ``directory`` mounted at ``at``, in a mount namespace of its own."""
    require_root()
    root = _unpacked(store, base, cache)
    mount_and_enter = 'mkdir -p "$1$3" && mount --bind "$2" "$1$3" && root=$1 && shift 3 && exec chroot "$root" "$@"'
    shell = ("unshare", "--mount", "sh", "-c", mount_and_enter, "sh", root, directory, at)
    return run(*shell, *command, env={"PYTHONPYCACHEPREFIX": "", "PYTHONPATH": "", "LANG": "C.UTF-8"})


def _unpacked(store: ImageStore, base: Blob, cache: Path) -> Path:
    """The base's files, unpacked once beside the store."""
    root = cache / "rootfs" / base.digest.removeprefix("sha256:")[:16]
    if not root.exists():
        shutil.rmtree(root.parent, ignore_errors=True)  # an older base's
        root.parent.mkdir(parents=True)
        fresh = Path(tempfile.mkdtemp(dir=root.parent))
        run("tar", "-C", fresh, "--numeric-owner", "-xpf", store.path(base))
        fresh.chmod(0o755)
        fresh.rename(root)
    return root


def busybox(store: ImageStore, cache: Path) -> Blob:
    """Layer with Debian's static busybox and a link per applet: a small image that has no `mikan` user."""
    return store.layer(f"busybox {SUITE} 1", lambda out: _busybox(cache, out))


def _busybox(cache: Path, out: Path) -> None:
    """Source: the package `busybox-static`, downloaded but not installed."""
    with step("busybox"), tempfile.TemporaryDirectory(dir=cache) as work:
        # apt drops its rights for downloads and must be able to write here.
        Path(work).chmod(0o777)
        run(which("apt-get"), "download", "-qq", "busybox-static", cwd=Path(work))
        (package,) = Path(work).glob("*.deb")
        run("dpkg-deb", "-x", package, Path(work) / "files")
        program = next((Path(work) / "files").glob("**/bin/busybox"))
        applets = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
        with tarfile.open(out, "w") as tar:
            for directory, mode in (("bin", 0o755), ("etc", 0o755), ("root", 0o700), ("tmp", 0o1777)):
                add_directory(tar, directory, mode=mode)
            add_file(tar, "bin/busybox", program.read_bytes(), 0o755)
            for applet in applets:
                if applet != "busybox":
                    add_link(tar, f"bin/{Path(applet).name}", "busybox")
            add_file(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
            add_file(tar, "etc/group", b"root:x:0:\n")
