import asyncio
import os
from pathlib import Path

from mikan_cli.lines import LineReader


async def test_lines_come_one_by_one_though_they_were_pasted_together() -> None:
    read, write = os.pipe()
    os.write(write, "eins\r\nzwei ü\nrest".encode())
    os.close(write)
    lines = LineReader(read)

    assert [await lines.next() for _ in range(4)] == ["eins", "zwei ü", "rest", None]
    os.close(read)


async def test_waiting_for_a_line_can_be_cancelled() -> None:
    read, write = os.pipe()
    waiting = asyncio.create_task(LineReader(read).next())
    await asyncio.sleep(0)
    waiting.cancel()
    done, _ = await asyncio.wait({waiting})

    assert [task.cancelled() for task in done] == [True]
    os.close(read)
    os.close(write)


async def test_a_file_can_be_typed_too(tmp_path: Path) -> None:
    (tmp_path / "typed").write_text("one\ntwo\n")
    descriptor = os.open(tmp_path / "typed", os.O_RDONLY)
    lines = LineReader(descriptor)

    assert [await lines.next() for _ in range(3)] == ["one", "two", None]
    os.close(descriptor)
