"""What every Executor does with files."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mikan_agent.executor import (
    Executor,
    ExecutorError,
    FileMissing,
    FileStat,
    FileType,
    InvalidRequest,
    NotAFile,
    RequestRefused,
)

HOSTILE_NAMES = [
    "-rf",
    "--help",
    " lead and trail ",
    "new\nline",
    "trailing\n",
    "'single' \"double\" `back`",
    "$(touch pwned); echo *",
    "ünïcode 漢字 🍊",
    "tab\tand\\backslash",
    "not utf-8 \udcff\udcfe",
    "n" * 255,
    "é" * 127,
    ".hidden",
    "%s%n",
]


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


@pytest.mark.parametrize("name", HOSTILE_NAMES)
async def test_hostile_names_are_just_names(executor: Executor, workspace: Path, name: str) -> None:
    await executor.write_file(name, b"content")

    assert await executor.read_file(name) == b"content"
    assert (await executor.stat(name)).size == 7
    assert names(workspace) == [name]
    assert (workspace / name).read_bytes() == b"content"


@pytest.mark.parametrize("data", [b"", b"\0", bytes(range(256)), b"\r\n\n", b"no newline", b"\xff\xfe"])
async def test_content_is_kept_to_the_byte(executor: Executor, data: bytes) -> None:
    await executor.write_file("f", data)

    assert await executor.read_file("f") == data


async def test_twenty_megabytes_go_both_ways(executor: Executor) -> None:
    data = os.urandom(20_000_000)

    await executor.write_file("big", data)

    assert await executor.read_file("big") == data


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (0, 4, b"0123"),
        (3, 4, b"3456"),
        (8, 100, b"89"),
        (10, 1, b""),
        (99, None, b""),
        (5, None, b"56789"),
        (2, 0, b""),
    ],
)
async def test_part_of_a_file(executor: Executor, offset: int, limit: int | None, expected: bytes) -> None:
    await executor.write_file("f", b"0123456789")

    assert await executor.read_file("f", offset, limit) == expected


@pytest.mark.parametrize(("offset", "limit"), [(-1, None), (0, -1)])
async def test_negative_part_is_refused(executor: Executor, offset: int, limit: int | None) -> None:
    await executor.write_file("f", b"x")

    with pytest.raises(InvalidRequest):
        await executor.read_file("f", offset, limit)


async def test_files_whose_size_is_not_told_are_read_whole(executor: Executor) -> None:
    assert (await executor.read_file("/proc/self/status")).startswith(b"Name:")


async def test_missing_file_is_missing(executor: Executor) -> None:
    with pytest.raises(FileMissing):
        await executor.read_file("no/such/file")
    with pytest.raises(FileMissing):
        await executor.stat("no/such/file")


async def test_only_regular_files_are_read_and_replaced(executor: Executor, workspace: Path) -> None:
    (workspace / "dir").mkdir()
    os.mkfifo(workspace / "fifo")

    for path in ("dir", "fifo", "/dev/zero"):
        with pytest.raises(NotAFile):
            await executor.read_file(path)
        with pytest.raises(NotAFile):
            await executor.write_file(path, b"x")


async def test_missing_parents_are_made_unless_unwanted(executor: Executor, workspace: Path) -> None:
    await executor.write_file("a/b/c", b"x")
    with pytest.raises(FileMissing):
        await executor.write_file("d/e", b"x", parents=False)

    assert (workspace / "a/b/c").read_bytes() == b"x"
    assert names(workspace) == ["a"]


async def test_mode_is_kept_or_set(executor: Executor, workspace: Path) -> None:
    script = workspace / "script"
    script.write_bytes(b"old")
    script.chmod(0o750)

    await executor.write_file("script", b"new")
    await executor.write_file("secret", b"x", mode=0o600)
    await executor.write_file("plain", b"x")

    assert {name: (workspace / name).stat().st_mode & 0o777 for name in names(workspace)} == {
        "plain": 0o644,
        "script": 0o750,
        "secret": 0o600,
    }


async def test_writing_through_a_link_replaces_what_it_names(executor: Executor, workspace: Path) -> None:
    (workspace / "real").write_bytes(b"old")
    (workspace / "link").symlink_to("real")
    (workspace / "dangling").symlink_to("not yet")

    await executor.write_file("link", b"new")
    await executor.write_file("dangling", b"made")

    assert (workspace / "link").is_symlink()
    assert (workspace / "real").read_bytes() == b"new"
    assert (workspace / "not yet").read_bytes() == b"made"


async def test_stat_tells_what_stands_there(executor: Executor, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"abc")
    (workspace / "f").chmod(0o640)
    os.utime(workspace / "f", ns=(0, 5_000_000_000))
    (workspace / "link").symlink_to("f")
    (workspace / "dir").mkdir()

    assert await executor.stat("f") == FileStat(FileType.FILE, 3, 0o640, 5_000_000_000)
    assert (await executor.stat("link")).type is FileType.FILE
    assert (await executor.stat("link", follow=False)).type is FileType.LINK
    assert (await executor.stat("dir")).type is FileType.DIRECTORY
    assert (await executor.stat("/dev/null")).type is FileType.OTHER


async def test_content_stream_that_fails_leaves_the_target(executor: Executor, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"before")

    async def broken() -> AsyncIterator[bytes]:
        yield b"half of it"
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        await executor.write_file("f", broken())

    assert names(workspace) == ["f"]
    assert (workspace / "f").read_bytes() == b"before"


async def test_cancelled_write_leaves_the_target(executor: Executor, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"before")
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"half of it"
        begun.set()
        await asyncio.Event().wait()

    write = asyncio.create_task(executor.write_file("f", endless()))
    await begun.wait()
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write

    assert names(workspace) == ["f"]
    assert (workspace / "f").read_bytes() == b"before"


async def test_refused_write_names_a_reason_and_leaves_nothing(executor: Executor, workspace: Path) -> None:
    with pytest.raises(RequestRefused):
        await executor.write_file("/proc/no-file-can-be-made-here", bytes(5_000_000))
    with pytest.raises(ExecutorError):
        await executor.write_file("n" * 256, b"x")

    assert names(workspace) == []


async def test_twenty_files_are_written_and_read_at_once(executor: Executor) -> None:
    contents = [os.urandom(100_000 + n) for n in range(20)]

    await asyncio.gather(*(executor.write_file(f"f{n}", data) for n, data in enumerate(contents)))

    assert await asyncio.gather(*(executor.read_file(f"f{n}") for n in range(20))) == contents
