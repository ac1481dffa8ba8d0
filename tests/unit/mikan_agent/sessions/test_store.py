"""Sessions by key: which file, beginning, resetting, appending, and what a sandbox could try."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.messages import AssistantMessage, Message, TextContent, ToolCall, ToolResultMessage, UserMessage
from mikan_agent.records.exceptions import FileBusy, FileClosed, NotFound, NotJson, Refused, StorageFailed
from mikan_agent.sessions.context import LOST_RESULT
from mikan_agent.sessions.exceptions import InvalidHeader, InvalidPointer, UnknownEntry
from mikan_agent.sessions.store import SessionStore
from mikan_api.session_keys import SessionKey

CWD = "/workspace/v1-slack-c123-f1bbf4ab194ff2ea"
TOP = SessionKey("C123")
THREAD = SessionKey("C123:1700.5")


class TickingClock:
    """A second later at every look."""

    def __init__(self) -> None:
        self._now = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

    def now(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    directory = tmp_path / "sessions"
    directory.mkdir()
    return directory


@pytest.fixture
def store(sessions: Path) -> SessionStore:
    return SessionStore(ConfinedDirectory(sessions), CWD, TickingClock())


def user(text: str) -> UserMessage:
    return UserMessage(content=text, timestamp=1)


def answer(text: str, *calls: str) -> AssistantMessage:
    return AssistantMessage(content=[TextContent(text=text), *(ToolCall(id=c, name="bash") for c in calls)])


async def say(store: SessionStore, key: SessionKey, *messages: Message) -> str:
    async with await store.open(key) as session:
        for message in messages:
            await session.append_message(message)
        return session.file_name


async def heard(store: SessionStore, key: SessionKey) -> list[str]:
    async with await store.open(key) as session:
        return [getattr(m, "text", m.role) for m in session.context().messages]


async def test_a_top_level_session_begins_and_goes_on(store: SessionStore, sessions: Path) -> None:
    name = await say(store, TOP, user("one"))
    assert name.startswith("2026-03-01T12-00-01-000Z_")
    assert (sessions / "current").read_text() == f"{name}\n"
    assert await say(store, TOP, answer("two")) == name
    assert await heard(store, TOP) == ["one", "two"]


async def test_a_thread_has_a_fixed_file_and_remembers_the_session_it_grew_from(
    store: SessionStore, sessions: Path
) -> None:
    parent = await say(store, TOP, user("one"))
    assert await say(store, THREAD, user("in thread")) == "1700.5.jsonl"
    await store.reset(TOP, 7)
    assert await heard(store, THREAD) == ["in thread"]
    header = json.loads((sessions / "1700.5.jsonl").read_text().splitlines()[0])
    assert header["parentSession"] == str(sessions / parent)
    assert header["cwd"] == CWD


async def test_a_thread_without_a_top_level_session_has_no_parent(store: SessionStore) -> None:
    async with await store.open(THREAD) as session:
        assert session.header.parent_session is None
        assert session.is_empty


async def test_reset_begins_afresh_and_keeps_the_old_file(store: SessionStore, sessions: Path) -> None:
    old = await say(store, TOP, user("one"))
    content = (sessions / old).read_bytes()
    new = await store.reset(TOP, 7)
    assert new != old
    assert await heard(store, TOP) == []
    assert (sessions / old).read_bytes() == content


async def test_resetting_a_thread_keeps_its_parent_and_its_old_file(store: SessionStore, sessions: Path) -> None:
    parent = await say(store, TOP, user("one"))
    await say(store, THREAD, user("old"))
    await store.reset(TOP, 7)
    assert await store.reset(THREAD, 7) == "1700.5.jsonl"
    assert await heard(store, THREAD) == []
    [kept] = [name for name in os.listdir(sessions) if name.startswith("1700.5~")]
    assert '"old"' in (sessions / kept).read_text()
    async with await store.open(THREAD) as session:
        assert session.header.parent_session == str(sessions / parent)


async def test_an_open_session_can_be_neither_opened_nor_reset(store: SessionStore) -> None:
    for key in (TOP, THREAD):
        async with await store.open(key):
            with pytest.raises(FileBusy):
                await store.open(key)
            with pytest.raises(FileBusy):
                await store.reset(key, 7)
        await store.reset(key, 7)


async def test_a_reset_is_the_way_out_of_a_damaged_file_and_pointer(store: SessionStore, sessions: Path) -> None:
    await say(store, THREAD, user("x"))
    (sessions / "1700.5.jsonl").write_text("garbage\n")
    (sessions / "current").write_text("../../etc/passwd")
    with pytest.raises(InvalidHeader):
        await store.open(THREAD)
    with pytest.raises(InvalidPointer):
        await store.open(TOP)
    await store.reset(THREAD, 7)
    await store.reset(TOP, 7)
    assert await heard(store, TOP) == await heard(store, THREAD) == []
    [kept] = [name for name in os.listdir(sessions) if name.startswith("1700.5~")]
    assert (sessions / kept).read_text() == "garbage\n"


@pytest.mark.parametrize(
    "pointer",
    [
        "",
        "../x.jsonl",
        "/etc/passwd.jsonl",
        "a/b.jsonl",
        "current",
        ".jsonl",
        ".x.jsonl",
        "x",
        "x.jsonl\0",
        "a\nb.jsonl",
    ],
)
async def test_a_pointer_to_anything_but_a_session_file_is_refused(
    store: SessionStore, sessions: Path, pointer: str
) -> None:
    (sessions / "current").write_text(pointer)
    with pytest.raises(InvalidPointer):
        await store.open(TOP)


async def test_a_pointer_to_a_missing_file_begins_anew(store: SessionStore, sessions: Path) -> None:
    (sessions / "current").write_text("2026-01-01T00-00-00-000Z_gone.jsonl\n")
    async with await store.open(TOP) as session:
        assert session.is_empty
        assert session.file_name != "2026-01-01T00-00-00-000Z_gone.jsonl"


async def test_links_in_place_of_files_are_refused(store: SessionStore, sessions: Path, tmp_path: Path) -> None:
    name = await say(store, TOP, user("one"))
    outside = tmp_path / "outside.jsonl"
    os.rename(sessions / name, outside)
    before = outside.read_bytes()
    (sessions / name).symlink_to(outside)
    (sessions / "1700.5.jsonl").symlink_to(outside)
    for key in (TOP, THREAD):
        with pytest.raises(Refused):
            await store.open(key)
    (sessions / "current").unlink()
    (sessions / "current").symlink_to(outside)
    with pytest.raises(Refused):
        await store.open(TOP)
    with pytest.raises(Refused):
        async with store.reading(name):
            pass
    assert outside.read_bytes() == before


async def test_a_linked_sessions_directory_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "sessions").symlink_to(outside)
    store = SessionStore(ConfinedDirectory(tmp_path / "root").directory("sessions"), CWD)
    with pytest.raises(Refused):
        await store.open(TOP)
    assert os.listdir(outside) == []


async def test_files_lists_what_can_be_read(store: SessionStore, sessions: Path) -> None:
    name = await say(store, TOP, user("one"))
    await say(store, THREAD, user("two"))
    (sessions / "broken.jsonl").write_text("garbage")
    (sessions / "link.jsonl").symlink_to(sessions / name)
    (sessions / "1700.5.jsonl.torn-x").write_text("{")
    files = await store.files()
    assert [(f.name, f.is_current, f.size) for f in files] == [
        ("1700.5.jsonl", False, (sessions / "1700.5.jsonl").stat().st_size),
        (name, True, (sessions / name).stat().st_size),
    ]
    assert files[0].header.parent_session == str(sessions / name)


async def test_reading_needs_no_lock_and_changes_nothing(store: SessionStore, sessions: Path) -> None:
    async with await store.open(TOP) as session:
        await session.append_message(user("one"))
        async with store.reading(session.file_name) as loaded:
            assert [entry.message for entry in loaded.tree.entries] == [user("one")]
    for name, refusal in {"../current": InvalidPointer, "none.jsonl": NotFound}.items():
        with pytest.raises(refusal):
            async with store.reading(name):
                pass


async def test_repair_gives_each_call_without_a_result_an_error_in_order(store: SessionStore) -> None:
    result = ToolResultMessage(tool_call_id="2", tool_name="bash", content=[TextContent(text="ok")])
    await say(store, TOP, user("go"), answer("on it", "1", "2", "3"), result)
    async with await store.open(TOP) as session:
        assert len(await session.repair()) == 2
        assert await session.repair() == []
    async with await store.open(TOP) as session:
        messages = session.context().messages
        assert len(session.entries) == len(messages) == 5
    results = [m for m in messages if isinstance(m, ToolResultMessage)]
    assert [(r.tool_call_id, r.is_error, r.text) for r in results] == [
        ("2", False, "ok"),
        ("1", True, LOST_RESULT),
        ("3", True, LOST_RESULT),
    ]


async def test_branching_goes_back_and_loses_nothing(store: SessionStore) -> None:
    async with await store.open(TOP) as session:
        first = await session.append_message(user("one"))
        second = await session.append_message(answer("left"))
        session.branch(first)
        assert session.leaf_id == first
        await session.append_message(answer("right"))
        assert [m.text for m in session.context().messages if isinstance(m, AssistantMessage)] == ["right"]
        await session.branch_with_summary(second, "went right")
        assert [m.role for m in session.context().messages] == ["user", "assistant", "branchSummary"]
        session.branch(None)
        assert session.context().messages == ()
        with pytest.raises(UnknownEntry):
            session.branch("nowhere")
        assert len(session.entries) == 4


async def test_labels_and_name_are_what_was_set_last(store: SessionStore) -> None:
    async with await store.open(TOP) as session:
        first = await session.append_message(user("one"))
        second = await session.append_message(user("two"))
        await session.append_label(first, "a")
        await session.append_label(first, "b")
        await session.append_label(second, "c")
        await session.append_label(second, None)
        await session.append_session_info("old")
        await session.append_session_info("new")
        assert (session.labels(), session.name) == ({first: "b"}, "new")
        with pytest.raises(UnknownEntry):
            await session.append_label("nowhere", "x")
        with pytest.raises(UnknownEntry):
            await session.append_compaction("S", "nowhere", 1)


async def test_what_json_cannot_carry_changes_nothing(store: SessionStore) -> None:
    async with await store.open(TOP) as session:
        await session.append_message(user("one"))
        with pytest.raises(NotJson):
            await session.append_custom("x", float("nan"))
        assert len(session.entries) == 1
    assert await heard(store, TOP) == ["one"]


async def test_appends_at_once_are_serial_and_each_hangs_on_the_one_before(store: SessionStore) -> None:
    async with await store.open(TOP) as session:
        await asyncio.gather(*(session.append_message(user(str(n))) for n in range(30)))
        assert len(session.branch_path()) == 30
    async with await store.open(TOP) as session:
        assert session.problems == ()
        assert len(session.branch_path()) == 30


async def test_a_cancelled_append_leaves_file_and_tree_alike(store: SessionStore) -> None:
    async with await store.open(TOP) as session:
        task = asyncio.create_task(session.append_message(user("one")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await session.append_message(user("two"))
        in_memory = [entry.id for entry in session.branch_path()]
    async with await store.open(TOP) as session:
        assert [entry.id for entry in session.branch_path()] == in_memory


async def test_a_closed_session_takes_nothing_more(store: SessionStore) -> None:
    session = await store.open(TOP)
    await session.close()
    await session.close()
    with pytest.raises(FileClosed):
        await session.append_message(user("late"))


async def test_a_full_disk_fails_the_append_and_the_session_goes_on(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = os.write

    def short_write(descriptor: int, content: bytes) -> int:
        if len(content) > 20:
            return real_write(descriptor, content[:20])
        raise OSError(28, "No space left on device")

    async with await store.open(TOP) as session:
        await session.append_message(user("one"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", short_write)
            with pytest.raises(StorageFailed, match="No space left on device"):
                await session.append_message(user("lost"))
        await session.append_message(user("two"))
    async with await store.open(TOP) as session:
        assert session.problems == ()
    assert await heard(store, TOP) == ["one", "two"]


async def test_only_a_users_message_and_a_compaction_wait_for_the_disk(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await store.open(TOP) as session:
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", synced.append)
        await session.append_message(answer("a"))
        assert synced == []
        first = await session.append_message(user("b"))
        assert len(synced) == 1
        await session.append_compaction("S", first, 1)
        assert len(synced) == 2
        await session.sync()
        assert len(synced) == 3
