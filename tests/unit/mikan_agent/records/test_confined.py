"""A sandbox owns the directory under test; nothing that it can build there leads out of it."""

import os
import socket
from pathlib import Path

import pytest

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.records.exceptions import (
    AlreadyExists,
    NotFound,
    NotRegular,
    Refused,
    SymlinkRefused,
    TooLarge,
    UnsafePath,
)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the confined one, with a secret."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret").write_text("secret")
    return directory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "root"
    directory.mkdir()
    return directory


@pytest.fixture
def confined(root: Path) -> ConfinedDirectory:
    return ConfinedDirectory(root)


@pytest.mark.parametrize(
    "path",
    ["/", "/etc/passwd", "..", "../outside/secret", "a/../../outside/secret", "a//b", "./a", "a/.", "a\0b", "a/"],
)
@pytest.mark.parametrize("operation", ["read", "write", "append", "stat", "remove", "mkdir", "names"])
def test_unsafe_paths_are_refused_by_every_operation(confined: ConfinedDirectory, path: str, operation: str) -> None:
    arguments: dict[str, tuple[object, ...]] = {"read": (10,), "write": (b"x",), "append": (b"x",)}
    with pytest.raises(UnsafePath):
        getattr(confined, operation)(path, *arguments.get(operation, ()))


def test_an_empty_path_names_no_file(confined: ConfinedDirectory) -> None:
    with pytest.raises(UnsafePath):
        confined.write("", b"x")


def test_a_path_deeper_than_the_limit_is_refused(confined: ConfinedDirectory) -> None:
    with pytest.raises(UnsafePath, match="65 segments"):
        confined.read("/".join("a" * 65), 10)


def test_a_name_that_no_file_can_have_is_refused(confined: ConfinedDirectory) -> None:
    with pytest.raises(UnsafePath):
        confined.write("\ud800", b"")
    with pytest.raises(UnsafePath):
        confined.read("a" * 300, 10)


def test_a_link_to_a_file_outside_is_neither_read_nor_appended_to(
    confined: ConfinedDirectory, root: Path, outside: Path
) -> None:
    (root / "link").symlink_to(outside / "secret")
    with pytest.raises(SymlinkRefused):
        confined.read("link", 100)
    with pytest.raises(SymlinkRefused):
        confined.append("link", b"more")
    assert (outside / "secret").read_text() == "secret"


def test_a_link_that_leads_nowhere_is_not_created_through(
    confined: ConfinedDirectory, root: Path, outside: Path
) -> None:
    (root / "link").symlink_to(outside / "new")
    with pytest.raises(SymlinkRefused):
        confined.append("link", b"x")
    assert not (outside / "new").exists()


def test_a_link_to_a_directory_is_never_walked_through(confined: ConfinedDirectory, root: Path, outside: Path) -> None:
    (root / "link").symlink_to(outside)
    for attempt in (
        lambda: confined.read("link/secret", 100),
        lambda: confined.write("link/new", b"x"),
        lambda: confined.names("link"),
        lambda: confined.mkdir("link/new"),
        lambda: confined.mkdir("link"),
        lambda: confined.remove("link/secret"),
        lambda: confined.directory("link").read("secret", 100),
        lambda: confined.stat("link/secret"),
    ):
        with pytest.raises(SymlinkRefused):
            attempt()
    assert sorted(os.listdir(outside)) == ["secret"]


def test_a_link_inside_the_tree_is_refused_too(confined: ConfinedDirectory, root: Path) -> None:
    (root / "real").write_text("x")
    (root / "link").symlink_to("real")
    with pytest.raises(SymlinkRefused):
        confined.read("link", 10)


def test_write_replaces_a_link_and_leaves_its_target(confined: ConfinedDirectory, root: Path, outside: Path) -> None:
    (root / "link").symlink_to(outside / "secret")
    confined.write("link", b"new")
    assert (outside / "secret").read_text() == "secret"
    assert not (root / "link").is_symlink()
    assert (root / "link").read_bytes() == b"new"


def test_a_link_is_described_and_removed_as_itself(confined: ConfinedDirectory, root: Path, outside: Path) -> None:
    (root / "link").symlink_to(outside / "secret")
    assert confined.exists("link")
    assert confined.read_link("link") == str(outside / "secret")
    confined.remove("link")
    assert (outside / "secret").exists()
    assert not confined.exists("link")


def test_a_fifo_never_blocks_and_is_refused(confined: ConfinedDirectory, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(NotRegular):
        confined.read("pipe", 10)
    with pytest.raises(NotRegular):
        confined.append("pipe", b"x")


def test_a_socket_a_device_and_a_directory_are_refused_as_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)  # a socket's path may have 107 bytes at most
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        (root / "directory").mkdir()
        for directory, name in ((root, "socket"), (Path("/dev"), "null"), (root, "directory")):
            with pytest.raises(NotRegular):
                ConfinedDirectory(directory).read(name, 10)


def test_a_file_is_not_walked_through(confined: ConfinedDirectory, root: Path) -> None:
    (root / "file").write_text("x")
    with pytest.raises(NotRegular):
        confined.read("file/below", 10)
    with pytest.raises(Refused):
        confined.mkdir("file/below")


def test_reading_stops_at_the_limit(confined: ConfinedDirectory, root: Path) -> None:
    (root / "file").write_bytes(b"12345")
    assert confined.read("file", 5) == b"12345"
    with pytest.raises(TooLarge):
        confined.read("file", 4)


def test_write_append_and_copy_leave_no_staged_files(confined: ConfinedDirectory, root: Path) -> None:
    confined.mkdir("a/b")
    confined.write("a/b/file", b"one")
    confined.write("a/b/file", b"two")
    confined.append("a/b/file", b"+")
    confined.copy("a/b/file", "a/b/copy")
    assert confined.names("a/b") == ["copy", "file"]
    assert confined.read("a/b/file", 10) == confined.read("a/b/copy", 10) == b"two+"
    with pytest.raises(AlreadyExists):
        confined.copy("a/b/file", "a/b/copy")


def test_a_write_that_fails_leaves_no_staged_file(confined: ConfinedDirectory, root: Path) -> None:
    (root / "directory").mkdir()
    with pytest.raises(NotRegular):
        confined.write("directory", b"x")
    assert confined.names() == ["directory"]


def test_rename_never_replaces(confined: ConfinedDirectory) -> None:
    confined.write("a", b"a")
    confined.write("b", b"b")
    with pytest.raises(AlreadyExists):
        confined.rename("a", "b")
    with pytest.raises(UnsafePath):
        confined.rename("a", "../c")
    confined.rename("a", "c")
    assert confined.names() == ["b", "c"]


def test_what_is_missing_says_so(confined: ConfinedDirectory) -> None:
    with pytest.raises(NotFound, match="'a' does not exist"):
        confined.read("a/b", 1)
    assert not confined.exists("a/b")


def test_no_descriptor_is_left_open(confined: ConfinedDirectory, root: Path, outside: Path) -> None:
    (root / "link").symlink_to(outside)
    before = os.listdir("/proc/self/fd")
    for _ in range(20):
        confined.mkdir("a/b/c")
        confined.write("a/b/c/file", b"x")
        with pytest.raises(Refused):
            confined.read("link/secret", 10)
        with pytest.raises(Refused):
            confined.mkdir("link/x")
        with pytest.raises(NotRegular):
            confined.read("a", 10)
    assert len(os.listdir("/proc/self/fd")) == len(before)
