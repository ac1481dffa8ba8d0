"""A directory that an admin sends: regular files only, and all of it inside."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from mikan_api.packages import PathSource, parse_package_source
from mikan_gateway.packages.exceptions import PackageRefused
from mikan_gateway.packages.installer import Installer
from mikan_gateway.packages.limits import Limits
from mikan_gateway.packages.volume import Volume

ACTIVATE = b"def activate(api): ...\n"


def source(name: str = "board") -> PathSource:
    parsed = parse_package_source(f"/mikan/packages/local/{name}")
    assert isinstance(parsed, PathSource)
    return parsed


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def archive(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def test_it_is_a_local_package_at_once(installer: Installer, volume: Path) -> None:
    sent = archive(
        member("./extension.py", ACTIVATE, mode=0o777, uid=0, uname="root"),
        member("lib/__pycache__/x.pyc", b"x"),
        member("skills", type=tarfile.DIRTYPE),
        member("skills/guide/SKILL.md", b"Guide"),
    )

    report = installer.put(source(), sent)

    assert (report.extensions, report.skills, report.fault) == (("board",), ("guide",), "")
    place = volume / "local" / "board"
    assert sorted(os.listdir(place)) == ["extension.py", "skills"]
    assert (place / "extension.py").stat().st_mode & 0o7777 == 0o755
    assert (volume / "skills" / source().skills / "guide" / "SKILL.md").read_bytes() == b"Guide"
    assert os.listdir(volume / "local") == ["board"]


def test_one_that_is_sent_again_takes_the_place_of_the_first(installer: Installer, volume: Path) -> None:
    installer.put(source(), archive(member("extension.py", ACTIVATE), member("old", b"x")))
    installer.put(source(), archive(member("extension.py", ACTIVATE)))

    assert os.listdir(volume / "local" / "board") == ["extension.py"]


BAD = {
    "an absolute path": ([member("/etc/x", b"x")], "the path '/etc/x' is not safe"),
    "a path upwards": ([member("../x", b"x")], "the path '../x' is not safe"),
    "a path upwards inside": ([member("a/../../x", b"x")], "is not safe"),
    "a link": ([member("x", type=tarfile.SYMTYPE, linkname="extension.py")], "'x' is no regular file"),
    "a link out": ([member("x", type=tarfile.SYMTYPE, linkname="/etc")], "'x' is no regular file"),
    "a hard link": ([member("x", type=tarfile.LNKTYPE, linkname="extension.py")], "'x' is no regular file"),
    "a device": ([member("x", type=tarfile.CHRTYPE)], "'x' is no regular file"),
    "a pipe": ([member("x", type=tarfile.FIFOTYPE)], "'x' is no regular file"),
    "a path twice": ([member("x", b"1"), member("x", b"2")], "the path 'x' is there twice"),
    "a file as a directory": ([member("x", b"1"), member("x/y", b"2")], "the path 'x/y' is there twice"),
    "git's own": ([member(".git/config", b"x")], "is not safe"),
    "a file too large": ([member("x", bytes(1_001))], "'x' has more than 1000 bytes"),
    "too many files": ([member(str(n), b"x") for n in range(20)], "it has more than 10 files"),
    "no extension": ([], "it holds neither an extension nor a skill"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_safe_is_refused_and_the_package_stays_as_it_was(volume: Path, what: str) -> None:
    installer = Installer(Volume(volume), Limits(files=10, file_bytes=1_000))
    installer.put(source(), archive(member("extension.py", ACTIVATE), member("old", b"x")))
    members, fault = BAD[what]
    good = [] if what == "no extension" else [member("extension.py", ACTIVATE)]

    with pytest.raises(PackageRefused, match=fault):
        installer.put(source(), archive(*good, *members))
    assert sorted(os.listdir(volume / "local" / "board")) == ["extension.py", "old"]
    assert os.listdir(volume / "local") == ["board"]


@pytest.mark.parametrize("cut", [0, 100, 600, 1_500])
def test_what_is_no_whole_archive_is_refused(installer: Installer, volume: Path, cut: int) -> None:
    whole = archive(member("extension.py", ACTIVATE * 100)).getvalue()

    with pytest.raises(PackageRefused):
        installer.put(source(), io.BytesIO(whole[:cut]))
    assert os.listdir(volume / "local") == []


def test_a_compressed_archive_is_refused(installer: Installer) -> None:
    with pytest.raises(PackageRefused, match="no whole tar archive"):
        installer.put(source(), archive(member("extension.py", ACTIVATE), mode="w:gz"))


def test_an_archive_without_end_is_refused(volume: Path) -> None:
    """A header that claims more than any package may be is not read to its end."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 10**10
    endless = io.BytesIO(info.tobuf(tarfile.GNU_FORMAT) + bytes(4_000_000))

    with pytest.raises(PackageRefused):
        Installer(Volume(volume), Limits(files=10, total_bytes=1_000)).put(source(), endless)
