"""What the model finds of its conversation's past, and that looking for it stays small."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, UserMessage
from mikan_agent.records.log import PlatformLog
from mikan_agent.sessions import search
from mikan_agent.sessions.chat_history import catch_up
from mikan_agent.sessions.form import Mark
from mikan_agent.sessions.search import HistorySearch, Hit, Hits, Search
from mikan_agent.sessions.store import SessionStore
from mikan_agent.tools.history import HistoryArguments, HistoryTool
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.messaging import Author, ConversationMessage, LogEntry
from mikan_api.session_keys import SessionKey

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = OfficeAddress(Platform.SLACK, "C123").key
TOP, THREAD = SessionKey("C123"), SessionKey("C123:m1")


class TickingClock:
    """A minute later at every look."""

    def __init__(self) -> None:
        self.minutes = 0

    def now(self) -> datetime:
        self.minutes += 1
        return START + timedelta(minutes=self.minutes)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


class Past:
    """The records of an office."""

    def __init__(self, root: Path) -> None:
        self.clock = TickingClock()
        self.history = ConfinedDirectory(root)
        self.log = PlatformLog(self.history, KEY, self.clock)
        self.store = SessionStore(self.history.directory("sessions"), "/workspace/office", self.clock)
        self.tool = HistoryTool(HistorySearch(self.history))
        self.number = 0

    async def write(self, text: str, own: bool = False, session: str | None = None, thread: str | None = None) -> int:
        self.number += 1
        message = ConversationMessage(
            id=f"m{self.number}",
            thread_id=thread,
            author=Author(id="mikan") if own else Author(id="U1", user_name="ada"),
            text=text,
            time=self.clock.now(),
            session_key=SessionKey(session) if session else None,
        )
        await self.log.append([LogEntry(number=self.number, message=message, from_bot=own)])
        return self.number

    async def find(self, query: str = "", **more: Any) -> list[str]:
        arguments = HistoryArguments(query=query, **more)
        output = await self.tool.answer(arguments)
        [part] = output.content
        assert isinstance(part, TextContent)
        return part.text.splitlines()


@pytest.fixture
async def past(tmp_path: Path) -> Past:
    past = Past(tmp_path)
    await past.log.open()
    return past


def call(call_id: str, command: str) -> AssistantMessage:
    return AssistantMessage(content=[ToolCall(id=call_id, name="bash", arguments={"command": command})])


def result(call_id: str, text: str, failed: bool = False) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="bash", content=[TextContent(text=text)], is_error=failed)


async def ask(past: Past, key: SessionKey, text: str, answer: str) -> str:
    """A run as it is recorded and posted; the session's file."""
    number = await past.write(text)
    async with await past.store.open(key) as session:
        await catch_up(session, key, past.log, number - 1, past.clock.now())
        await session.append_message(UserMessage(content=text, timestamp=1), Mark(f"r{number}", number))
        await session.append_message(call("c", f"grep {text}"))
        await session.append_message(result("c", f"found {text}", failed=True))
        await session.append_message(AssistantMessage(content=[TextContent(text=answer)]))
        name = session.file_name
    await past.write(answer, own=True, session=key)
    return name


async def test_chat_and_all_sessions_are_searched_and_nothing_is_told_twice(past: Past) -> None:
    old = await ask(past, TOP, "the Zebra plan", "zebra is done")
    await past.store.reset(TOP, past.number)
    await past.write("another zebra?", thread="m1")
    thread = await ask(past, THREAD, "zebra here", "no zebra")
    lines = [line.split(" ", 1)[1] for line in await past.find("ZEBRA")]
    ids = {line.split("#")[1].split(",")[0] for line in lines if line.startswith("session")}
    assert len(ids) == 6

    def shown(line: str) -> str:
        where, _, rest = line.partition(" #")
        return f"{where} {rest.split(' ', 1)[1]}" if where.startswith("session") else line

    assert [shown(line) for line in lines] == [
        f"session {thread} assistant: no zebra",
        f"session {thread} result of bash (failed): found zebra here",
        f'session {thread} assistant: [bash {{"command": "grep zebra here"}}]',
        "chat #4, ada: zebra here",
        "chat #3 in thread m1, ada: another zebra?",
        f"session {old} assistant: zebra is done",
        f"session {old} result of bash (failed): found the Zebra plan",
        f'session {old} assistant: [bash {{"command": "grep the Zebra plan"}}]',
        "chat #1, ada: the Zebra plan",
    ]
    await past.log.close()


async def test_a_source_or_a_session_alone_has_all_of_its_own(past: Past) -> None:
    name = await ask(past, TOP, "zebra", "zebra done")
    chat = await past.find("zebra", source="chat")
    assert [line.split(", ", 1)[1] for line in chat] == ["mikan (bot): zebra done", "ada: zebra"]
    sessions = await past.find("zebra", source="sessions")
    assert [line.split(", ", 1)[1].split(":")[0] for line in sessions] == [
        "assistant",
        "result of bash (failed)",
        "assistant",
        "person",
    ]
    # A search of one session shows what the chat has elsewhere, too.
    assert await past.find("zebra", session=name) == sessions[:-1]
    assert await past.find("zebra", session="none.jsonl") == ["Nothing was found."]
    await past.log.close()


async def test_all_words_must_occur_in_any_script_and_order(past: Past) -> None:
    await past.write("Das Größte Zebra")
    await past.write('she said "zebra\tcrossing" größte')
    assert len(await past.find("zebra größte")) == 2
    assert len(await past.find('GRÖSSTE "zebra')) == 1
    assert await past.find("zebra nothing") == ["Nothing was found."]
    await past.log.close()


async def test_an_empty_query_gives_what_came_last_and_goes_on_before_a_time(past: Past) -> None:
    for number in range(1, 6):
        await past.write(f"t{number}")
    first = await past.find(limit=2)
    assert [line.rpartition(" ")[2] for line in first[:2]] == ["t5", "t4"]
    assert first[2] == "[There may be older ones: before=2026-03-01T12:04:00.000Z]"
    older = await past.find(limit=4, before="2026-03-01T12:04:00.000Z")
    assert [line.rpartition(" ")[2] for line in older] == ["t3", "t2", "t1"]
    await past.log.close()


async def test_a_scheduled_prompt_is_found_though_the_chat_does_not_have_it(past: Past) -> None:
    async with await past.store.open(TOP) as session:
        mark = Mark("r1", 3, event=True)
        await session.append_message(UserMessage(content="weekly zebra", timestamp=1), mark)
        assert session.last_mark == mark
    [line] = await past.find("zebra")
    assert line.endswith("person: weekly zebra")
    await past.log.close()


async def test_a_search_does_not_find_searches(past: Past) -> None:
    async with await past.store.open(TOP) as session:
        asked = [ToolCall(id=c, name=name, arguments={"query": "zebra"}) for c, name in (("a", "history"), ("b", "x"))]
        await session.append_message(AssistantMessage(content=[TextContent(text="Let me look."), *asked]))
        await session.append_message(result("a", "zebra found").model_copy(update={"tool_name": "history"}))
        await session.append_message(AssistantMessage(content=[asked[0]]))
    [line] = await past.find("zebra")
    assert line.endswith('assistant: Let me look. [x {"query": "zebra"}]')
    await past.log.close()


async def test_a_long_text_is_shown_around_what_was_found_on_one_line(past: Past) -> None:
    await past.write("x " * 500 + "the\nzebra " + "y " * 500)
    [line] = await past.find("zebra")
    assert "x the zebra y" in line
    text = line.split("ada: ")[1]
    assert (text[0], text[-1], len(text)) == ("…", "…", 402)
    await past.log.close()


async def test_damaged_lines_links_and_strange_files_are_left_out(past: Past, tmp_path: Path) -> None:
    name = await ask(past, TOP, "zebra", "done")
    sessions = tmp_path / "sessions"
    with (sessions / name).open("ab") as file:
        file.write(b'garbage zebra\n{"type":"message","message":5}\n{"type":"message","id":"zebra"')
    (sessions / "link.jsonl").symlink_to(sessions / name)
    (sessions / "dir.jsonl").mkdir()
    (sessions / f"{name}.v1-x").write_text("zebra")
    assert len(await past.find("zebra")) == 3
    await past.log.close()


async def test_nothing_recorded_yet_is_nothing_found(tmp_path: Path) -> None:
    tool = HistoryTool(HistorySearch(ConfinedDirectory(tmp_path)))
    [part] = (await tool.answer(HistoryArguments(query="x"))).content
    assert part == TextContent(text="Nothing was found.")


async def test_a_search_ends_at_its_bounds_and_says_so(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        await past.write(f"zebra {number}")
    monkeypatch.setattr(search, "MAX_BYTES", 1_000)
    lines = await past.find("zebra", limit=50)
    assert 0 < len(lines) < 10
    assert lines[-1].startswith("[The search took too long")
    await past.log.close()


async def test_a_search_that_nobody_waits_for_any_more_ends() -> None:
    class Endless:
        def __init__(self) -> None:
            self.begun, self.ended = threading.Event(), threading.Event()

        def find(self, search: Search, stopped: threading.Event) -> Hits:
            self.begun.set()
            if stopped.wait(10):
                self.ended.set()
            return Hits([])

    searcher = Endless()
    task = asyncio.create_task(HistoryTool(searcher).answer(HistoryArguments(query="x")))
    assert await asyncio.to_thread(searcher.begun.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(searcher.ended.wait, 10)


def test_hits_are_ordered_by_time_alone() -> None:
    assert Hit(START, "b", "x", "y") < Hit(START + timedelta(seconds=1), "a", "x", "y")
