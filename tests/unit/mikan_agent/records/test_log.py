"""The platform log on disk: numbered, idempotent, and safe against cuts and links."""

import json
import os
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from pathlib import Path

import pytest

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.records.exceptions import FileBusy, FileClosed, LogGap, NotRegular, StorageFailed, SymlinkRefused
from mikan_agent.records.log import LogRecord, PlatformLog
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.messaging import Attachment, Author, ConversationMessage, LogEntry
from mikan_api.session_keys import SessionKey

KEY = OfficeAddress(Platform.SLACK, "C123").key
TIME = datetime(2026, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)


class FixedClock:
    """Always the same moment."""

    def now(self) -> datetime:
        return TIME

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


def entry(number: int, text: str = "hello") -> LogEntry:
    author = Author(id="U1", user_name="ada", display_name="Ada L.")
    return LogEntry(number=number, message=ConversationMessage(id=f"m{number}", author=author, text=text, time=TIME))


@pytest.fixture
def history(tmp_path: Path) -> Path:
    directory = tmp_path / "history"
    directory.mkdir()
    return directory


def log_of(history: Path) -> PlatformLog:
    return PlatformLog(ConfinedDirectory(history), KEY, FixedClock())


async def recent(log: PlatformLog, limit: int) -> list[LogRecord]:
    return await log.look_back(lambda records: list(islice(records, limit))[::-1])


async def written(history: Path, *numbers: int) -> bytes:
    log = log_of(history)
    await log.open()
    await log.append([entry(n) for n in numbers])
    await log.close()
    return (history / "log.jsonl").read_bytes()


def numbers_in(history: Path) -> list[int]:
    return [json.loads(line)["number"] for line in (history / "log.jsonl").read_text().splitlines()]


async def test_a_line_has_every_field(history: Path) -> None:
    message = ConversationMessage(
        id="1700.1",
        thread_id="1699.9",
        author=Author(id="U1", user_name="ada", display_name="Ada L."),
        text="look <@bob>\nnow",
        attachments=(
            Attachment(id="a1", name="1_plan.pdf"),
            Attachment(id="a2", name="1_big.iso", error="larger than 25 MB"),
        ),
        time=datetime(2026, 3, 1, 14, 0, 0, 123_000, tzinfo=timezone(timedelta(hours=2))),
    )
    log = log_of(history)
    assert await log.open() == 0
    assert await log.append([LogEntry(number=1, message=message)]) == 1
    assert json.loads((history / "log.jsonl").read_text()) == {
        "number": 1,
        "id": "1700.1",
        "time": "2026-03-01T12:00:00.123Z",
        "user": "U1",
        "userName": "ada",
        "displayName": "Ada L.",
        "text": "look <@bob>\nnow",
        "attachments": [f"{KEY}/attachments/1_plan.pdf"],
        "thread": "1699.9",
        "isBot": False,
        "missingAttachments": [{"name": "1_big.iso", "error": "larger than 25 MB"}],
    }
    assert await recent(log, 5) == [
        LogRecord(
            number=1,
            id="1700.1",
            time=TIME,
            user="U1",
            user_name="ada",
            display_name="Ada L.",
            text="look <@bob>\nnow",
            attachments=(f"{KEY}/attachments/1_plan.pdf",),
            thread="1699.9",
            is_bot=False,
        )
    ]
    await log.close()


@pytest.mark.parametrize(("from_bot", "author_is_bot"), [(True, False), (False, True)])
async def test_posts_of_any_bot_are_marked_and_our_own_apart(
    history: Path, from_bot: bool, author_is_bot: bool
) -> None:
    message = ConversationMessage(
        id="1", author=Author(id="B", is_bot=author_is_bot), time=TIME, session_key=SessionKey("C123:7")
    )
    log = log_of(history)
    await log.open()
    await log.append([LogEntry(number=1, message=message, from_bot=from_bot)])
    line = json.loads((history / "log.jsonl").read_text())
    assert (line["isBot"], line.get("isOwn"), line["session"]) == (True, True if from_bot else None, "C123:7")
    [record] = await recent(log, 1)
    assert (record.is_bot, record.is_own, record.session) == (True, from_bot, "C123:7")
    await log.close()


async def test_batches_that_come_again_change_nothing(history: Path) -> None:
    log = log_of(history)
    await log.open()
    assert await log.append([entry(1), entry(2)]) == 2
    before = (history / "log.jsonl").read_bytes()
    assert await log.append([entry(1), entry(2)]) == 2
    assert await log.append([]) == 2
    assert (history / "log.jsonl").read_bytes() == before
    assert await log.append([entry(2), entry(3)]) == 3
    await log.close()
    assert numbers_in(history) == [1, 2, 3]


@pytest.mark.parametrize("batch", [[3], [2, 4], [1, 3], [2, 2], [3, 2]])
async def test_a_gap_is_refused_and_nothing_of_the_batch_written(history: Path, batch: list[int]) -> None:
    log = log_of(history)
    await log.open()
    await log.append([entry(1)])
    with pytest.raises(LogGap):
        await log.append([entry(n) for n in batch])
    assert numbers_in(history) == [1]
    assert await log.append([entry(2)]) == 2
    await log.close()


async def test_what_is_gone_for_good_is_left_out_and_said(history: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = log_of(history)
    await log.open()
    await log.append([entry(1)])
    assert await log.append([entry(5), entry(6)], 4) == 6
    assert await log.append([entry(7)], 4) == 7
    with pytest.raises(LogGap):
        await log.append([entry(10)], 8)
    await log.close()
    assert numbers_in(history) == [1, 5, 6, 7]
    assert caplog.messages == ["log entries are gone"]


async def test_a_new_process_goes_on_where_the_file_ends(history: Path) -> None:
    await written(history, 1, 2, 3)
    log = log_of(history)
    assert await log.open() == 3
    await log.append([entry(3), entry(4)])
    await log.close()
    assert numbers_in(history) == [1, 2, 3, 4]


async def test_the_last_number_is_found_behind_a_very_long_line(history: Path) -> None:
    log = log_of(history)
    await log.open()
    await log.append([entry(1), entry(2, "x" * 300_000)])
    await log.close()
    assert await log_of(history).open() == 2


async def test_a_cut_at_every_byte_of_the_last_line(history: Path) -> None:
    whole = await written(history, 1, 2)
    start = whole.index(b"\n") + 1
    for cut in range(start, len(whole) + 1):
        (history / "log.jsonl").write_bytes(whole[:cut])
        log = log_of(history)
        last = await log.open()
        await log.append([entry(n) for n in range(last + 1, 4)])
        await log.close()
        assert last == (2 if cut >= len(whole) - 1 else 1)
        assert numbers_in(history) == [1, 2, 3]
        side = history / "log.jsonl.torn-2026-03-01T12-00-00-123Z"
        if start < cut < len(whole) - 1:
            assert log.torn_file == side.name
            assert side.read_bytes() == whole[start:cut]
            side.unlink()
        else:
            assert log.torn_file is None
            assert not side.exists()


async def test_damage_in_the_middle_keeps_its_bytes(history: Path) -> None:
    whole = await written(history, 1, 2)
    damaged = whole + b"\0\0\0 garbage\n"
    (history / "log.jsonl").write_bytes(damaged)
    log = log_of(history)
    assert await log.open() == 2
    await log.append([entry(3)])
    assert (history / "log.jsonl").read_bytes().startswith(damaged)
    assert [record.number for record in await recent(log, 10)] == [1, 2, 3]
    await log.close()


async def test_lines_of_an_older_product_count_as_unnumbered(history: Path) -> None:
    (history / "log.jsonl").write_text('{"date":"2025-01-01T00:00:00Z","ts":"1.0","user":"U1","text":"old"}\n')
    log = log_of(history)
    assert await log.open() == 0
    await log.append([entry(1)])
    assert [record.id for record in await recent(log, 10)] == ["m1"]
    await log.close()


async def test_looking_back_gives_the_newest_lines_first(history: Path) -> None:
    log = log_of(history)
    await log.open()
    await log.append([entry(n) for n in range(1, 8)])
    assert [record.number for record in await recent(log, 3)] == [5, 6, 7]
    await log.close()


async def test_two_writers_are_refused_until_the_first_closes(history: Path) -> None:
    first, second = log_of(history), log_of(history)
    await first.open()
    with pytest.raises(FileBusy):
        await second.open()
    await first.close()
    assert await second.open() == 0
    with pytest.raises(FileClosed):
        await first.append([entry(1)])
    await second.close()


async def test_a_link_in_place_of_the_log_is_refused(history: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("")
    (history / "log.jsonl").symlink_to(target)
    with pytest.raises(SymlinkRefused):
        await log_of(history).open()
    (history / "log.jsonl").unlink()
    os.mkfifo(history / "log.jsonl")
    with pytest.raises(NotRegular):
        await log_of(history).open()


async def test_a_full_disk_leaves_the_file_as_it_was(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(history)
    await log.open()
    await log.append([entry(1)])
    before = (history / "log.jsonl").read_bytes()
    real_write = os.write

    def short_write(descriptor: int, content: bytes) -> int:
        if len(content) > 20:
            return real_write(descriptor, content[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", short_write)
        with pytest.raises(StorageFailed, match="No space left on device"):
            await log.append([entry(2)])
    assert (history / "log.jsonl").read_bytes() == before
    assert log.last_number == 1
    assert await log.append([entry(2)]) == 2
    await log.close()
    assert numbers_in(history) == [1, 2]
