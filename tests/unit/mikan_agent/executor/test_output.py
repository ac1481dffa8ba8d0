"""Output as the model sees it."""

import asyncio
from collections.abc import AsyncIterable
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mikan_agent.executor.exceptions import NoSpace
from mikan_agent.executor.output import CappedOutput, OutputCollector
from mikan_agent.executor.ports import OutputStream, StrPath

PATH = PurePosixPath("/workspace/k/scratch/out.log")


class Disk:
    """The one method of an Executor that a collector uses."""

    def __init__(self, full_after: int | None = None) -> None:
        self.files: dict[PurePosixPath, bytes] = {}
        self._full_after = full_after

    async def write_file(
        self, path: StrPath, data: bytes | AsyncIterable[bytes], mode: int | None = None, parents: bool = True
    ) -> None:
        """Keep the content once it is whole."""
        assert not isinstance(data, bytes)
        kept = b""
        async for chunk in data:
            kept += chunk
            if self._full_after is not None and len(kept) > self._full_after:
                raise NoSpace("no space left on device")
        self.files[PurePosixPath(path)] = kept


def collector(disk: Disk, limit: int) -> OutputCollector:
    return OutputCollector(disk, PATH, limit)  # type: ignore[arg-type]


async def test_short_output_is_shown_whole_and_kept_nowhere() -> None:
    disk = Disk()
    output = collector(disk, 10)
    for chunk in (b"abc", b"defg", b"hij"):
        await output.add(OutputStream.STDOUT, chunk)

    assert await output.finish() == CappedOutput("abcdefghij", 10, truncated=False, path=None)
    assert disk.files == {}


async def test_long_output_shows_its_ends_and_is_kept_whole() -> None:
    disk = Disk()
    output = collector(disk, 10)
    for chunk in (b"abc", b"defg", b"hij", b"klmnopq", b"r"):
        await output.add(OutputStream.STDERR, chunk)

    shown = await output.finish()

    text = f"abcde\n[... 8 bytes left out; the whole output is in {PATH} ...]\nnopqr"
    assert shown == CappedOutput(text, 18, truncated=True, path=PATH)
    assert disk.files == {PATH: b"abcdefghijklmnopqr"}


@pytest.mark.parametrize("size", [11, 25, 1000])
async def test_one_large_chunk_is_cut_alike(size: int) -> None:
    disk, data = Disk(), bytes(97 + n % 26 for n in range(size))
    output = collector(disk, 10)
    await output.add(OutputStream.STDOUT, data)

    shown = await output.finish()

    assert (shown.text[:5], shown.text[-5:]) == (data[:5].decode(), data[-5:].decode())
    assert f"[... {size - 10} bytes left out" in shown.text
    assert disk.files == {PATH: data}


@given(chunks=st.lists(st.binary(max_size=60), max_size=12), limit=st.integers(2, 100))
def test_however_it_comes_what_is_shown_and_what_is_kept_are_parts_of_the_same_output(
    chunks: list[bytes], limit: int
) -> None:
    disk = Disk()

    async def collected() -> CappedOutput:
        output = collector(disk, limit)
        for chunk in chunks:
            await output.add(OutputStream.STDOUT, chunk)
        return await output.finish()

    shown, whole, half = asyncio.run(collected()), b"".join(chunks), limit // 2

    assert shown.total_bytes == len(whole)
    if len(whole) <= 2 * half:
        assert shown == CappedOutput(whole.decode(errors="replace"), len(whole), truncated=False, path=None)
        assert disk.files == {}
    else:
        marker = f"\n[... {len(whole) - 2 * half} bytes left out; the whole output is in {PATH} ...]\n"
        ends = [end.decode(errors="replace") for end in (whole[:half], whole[len(whole) - half :])]
        assert shown == CappedOutput(marker.join(ends), len(whole), truncated=True, path=PATH)
        assert disk.files == {PATH: whole}


async def test_output_that_can_t_be_kept_is_shown_all_the_same() -> None:
    output = collector(Disk(full_after=100), 10)
    for n in range(1000):
        await output.add(OutputStream.STDOUT, b"%09d\n" % n)

    shown = await output.finish()

    assert shown.path is None
    assert "it could not be kept: no space left on device" in shown.text
    assert shown.text.endswith("0999\n")


async def test_memory_stays_near_the_limit() -> None:
    class Sink(Disk):
        async def write_file(
            self, path: StrPath, data: bytes | AsyncIterable[bytes], mode: int | None = None, parents: bool = True
        ) -> None:
            assert not isinstance(data, bytes)
            async for _ in data:
                await asyncio.sleep(0)

    output = collector(Sink(), 1000)
    for _ in range(2000):
        await output.add(OutputStream.STDOUT, bytes(900))
        held = len(output._head) + output._tail_size + 900 * output._queue.qsize()
        assert held < 1000 + 2 * 900 + 16 * 900

    assert (await output.finish()).total_bytes == 1_800_000


async def test_characters_cut_in_two_are_replaced_not_raised() -> None:
    output = collector(Disk(), 4)
    await output.add(OutputStream.STDOUT, "€€€€".encode())

    assert (await output.finish()).text.startswith("\ufffd\n[... 8 bytes")


async def test_abandoned_output_is_stored_as_far_as_it_came() -> None:
    disk = Disk()
    output = collector(disk, 4)
    await output.add(OutputStream.STDOUT, b"abcdef")

    await output.aclose()

    assert disk.files == {PATH: b"abcdef"}
