"""What holds of a session whatever was done in it, and wherever its file was cut."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, UserMessage
from mikan_agent.sessions.form import Mark
from mikan_agent.sessions.session import Session
from mikan_agent.sessions.store import SessionStore
from mikan_api.session_keys import SessionKey

TOP = SessionKey("C123")
Step = tuple[str, int, str]


async def branch(session: Session, entry_id: str | None) -> None:
    session.branch(entry_id)


def tool_result(text: str) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=text, tool_name="bash", content=[TextContent(text=text)])


AT_ANY: dict[str, Callable[[Session, int, str], Awaitable[object]]] = {
    "user": lambda s, n, t: s.append_message(UserMessage(content=t, timestamp=n), Mark(f"r{n}", n)),
    "answer": lambda s, n, t: s.append_message(AssistantMessage(content=[TextContent(text=t)], model=t)),
    "call": lambda s, n, t: s.append_message(AssistantMessage(content=[ToolCall(id=t, name="bash")])),
    "result": lambda s, n, t: s.append_message(tool_result(t)),
    "root": lambda s, n, t: branch(s, None),
    "name": lambda s, n, t: s.append_session_info(t),
    "level": lambda s, n, t: s.append_thinking_level_change(t or "low"),
    "model": lambda s, n, t: s.append_model_change("p", t),
    "custom": lambda s, n, t: s.append_custom("x", {"n": n}),
    "note": lambda s, n, t: s.append_custom_message("x", t, mark=Mark(log=n)),
}
AT_AN_ENTRY: dict[str, Callable[[Session, int, str, str], Awaitable[object]]] = {
    "branch": lambda s, n, t, entry: branch(s, entry),
    "left": lambda s, n, t, entry: s.branch_with_summary(entry, t),
    "compact": lambda s, n, t, entry: s.append_compaction(t, entry, n),
    "label": lambda s, n, t, entry: s.append_label(entry, t),
    "unlabel": lambda s, n, t, entry: s.append_label(entry, None),
}
STEPS = st.lists(
    st.tuples(st.sampled_from([*AT_ANY, *AT_AN_ENTRY]), st.integers(0, 50), st.text(max_size=8)), max_size=25
)


def store_in(directory: Path) -> SessionStore:
    return SessionStore(ConfinedDirectory(directory), "/workspace/office")


async def act(session: Session, steps: list[Step]) -> None:
    """Take steps; one that needs an entry to point at is left out where there is none."""
    for kind, number, text in steps:
        entries = session.entries
        if kind in AT_ANY:
            await AT_ANY[kind](session, number, text)
        elif entries:
            await AT_AN_ENTRY[kind](session, number, text, entries[number % len(entries)].id)


def picture(session: Session) -> dict[str, Any]:
    """Everything that can be seen of a session, at each of its entries."""
    leaf, seen = session.leaf_id, []
    for entry in session.entries:
        session.branch(entry.id)
        path = [e.id for e in session.branch_path()]
        seen.append((dict(entry.raw), path, session.context(), session.known_log))
    session.branch(leaf)
    return {"entries": seen, "labels": session.labels(), "name": session.name}


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_reopened_session_is_the_one_that_was_written(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    async def check(directory: Path) -> None:
        async with await store_in(directory).open(TOP) as session:
            await act(session, steps)
            written = picture(session)
        async with await store_in(directory).open(TOP) as session:
            assert session.problems == ()
            assert picture(session) == written
            assert session.leaf_id == (session.entries[-1].id if session.entries else None)

    asyncio.run(check(tmp_path_factory.mktemp("sessions")))


@settings(max_examples=60, deadline=None)
@given(STEPS, st.floats(0, 1))
def test_a_file_that_is_cut_anywhere_keeps_every_complete_entry_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], part: float
) -> None:
    async def check(directory: Path) -> None:
        async with await store_in(directory).open(TOP) as session:
            await act(session, steps)
            file = directory / session.file_name
        content = file.read_bytes()
        header = content.index(b"\n") + 1
        cut = header + round((len(content) - header) * part)
        file.write_bytes(content[:cut])
        complete = complete_entries(content[:cut])
        async with await store_in(directory).open(TOP) as session:
            assert [dict(entry.raw) for entry in session.entries] == complete
            assert len(session.problems) <= 1
            await session.append_message(UserMessage(content="and on", timestamp=1))
            after = picture(session)
        async with await store_in(directory).open(TOP) as session:
            assert session.problems == ()
            assert picture(session) == after
            assert [dict(entry.raw) for entry in session.entries][:-1] == complete

    asyncio.run(check(tmp_path_factory.mktemp("sessions")))


def complete_entries(content: bytes) -> list[dict[str, Any]]:
    """What is whole in a file, by an independent reading."""
    found = []
    for line in content.split(b"\n")[1:]:
        try:
            found.append(json.loads(line))
        except ValueError:  # the last one
            continue
    return found
