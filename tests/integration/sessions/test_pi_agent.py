"""Session files pass between mikan and the public pi coding agent: either opens and continues what the other wrote."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.messages import TextContent, parse_message
from mikan_agent.sessions.context import build_context
from mikan_agent.sessions.form import Mark
from mikan_agent.sessions.session import Session
from mikan_agent.sessions.store import SessionStore
from mikan_api.session_keys import SessionKey
from pi_agent import PiAgent, pi_agent

pytestmark = pytest.mark.timeout(600)  # the first test installs the package

CWD = "/workspace/office"
TOP = SessionKey("C123")
USAGE = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 3}
COST = {"input": 0.1, "output": 0.2, "cacheRead": 0, "cacheWrite": 0, "total": 0.3}


def asked(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": 1733234567890}


def answered(text: str, *calls: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "s"},
            {"type": "text", "text": text},
            *({"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": "ls"}} for call in calls),
        ],
        "api": "openai-completions",
        "provider": "openai",
        "model": "gpt-5-mini",
        "usage": USAGE | {"cost": COST},
        "stopReason": "toolUse" if calls else "stop",
        "timestamp": 1733234567891,
    }


def result(call: str) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": call,
        "toolName": "bash",
        "content": [{"type": "text", "text": "ok"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}],
        "details": {"exitCode": 0},
        "isError": False,
        "timestamp": 1733234567892,
    }


@pytest.fixture(scope="module")
def pi() -> Iterator[PiAgent]:
    with pi_agent() as running:
        yield running


class Files:
    """One sessions directory, for both."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = SessionStore(ConfinedDirectory(directory), CWD)

    def adopt(self, file: Path) -> None:
        """Make a file the top-level session."""
        (self.directory / "current").write_text(f"{file.name}\n")

    @property
    def current(self) -> Path:
        return self.directory / (self.directory / "current").read_text().strip()

    async def state(self) -> dict[str, Any]:
        """What `PiAgent.state` says, of our reading."""
        async with self.store.reading(self.current.name) as loaded:
            tree, header = loaded.tree, loaded.header
            assert loaded.problems == ()
            contexts = {}
            for entry in tree.entries:
                context = build_context(entry)
                model = context.model
                contexts[entry.id] = {
                    "messages": [message.to_json() for message in context.messages],
                    "thinkingLevel": context.thinking_level,
                    "model": {"provider": model.provider, "modelId": model.model_id} if model else None,
                }
            leaf = tree.leaf.id if tree.leaf else None
            raw = json.loads(self.current.read_text().splitlines()[0])
            assert header.id == raw["id"]
        async with await self.store.open(TOP) as session:
            labels, name = session.labels(), session.name
        return {
            "header": raw,
            "leaf": leaf,
            "name": name,
            "labels": labels,
            "ids": list(contexts),
            "contexts": contexts,
        }


async def agreed(pi: PiAgent, files: Files) -> dict[str, Any]:
    """What both say of the file, at every entry but where a tool call waits for its result: there we synthesise one."""
    pi.open(files.current)
    theirs, ours = pi.state(), await files.state()
    waiting = {entry for entry, context in theirs["contexts"].items() if _calls(context) - _results(context)}
    for state in (theirs, ours):
        state["contexts"] = {k: context for k, context in state["contexts"].items() if k not in waiting}
    for entry, context in theirs["contexts"].items():
        assert ours["contexts"][entry] == context, entry
    assert ours == theirs
    return ours


def _calls(context: dict[str, Any]) -> set[str]:
    answers = (m for m in context["messages"] if m["role"] == "assistant")
    return {part["id"] for answer in answers for part in answer["content"] if part["type"] == "toolCall"}


def _results(context: dict[str, Any]) -> set[str]:
    return {m["toolCallId"] for m in context["messages"] if m["role"] == "toolResult"}


async def test_a_file_of_theirs_with_everything_in_it_opens_here(pi: PiAgent, tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.adopt(pi.create(CWD, tmp_path))
    pi.call("appendThinkingLevelChange", "high")
    first = pi.call("appendMessage", asked("one"))
    pi.call("appendMessage", answered("two", "a", "b"))
    for call in ("a", "b"):
        pi.call("appendMessage", result(call))
    kept = pi.call("appendMessage", answered("three"))
    pi.call("appendModelChange", "anthropic", "claude-sonnet-4-5")
    pi.call("appendCompaction", "S", kept, 50_000, {"readFiles": []}, True)
    pi.call("appendCustomEntry", "ext", {"count": 42})
    pi.call("appendCustomMessageEntry", "ext", "Injected", True, {"k": 1})
    pi.call("appendCustomMessageEntry", "ext", [{"type": "text", "text": "hidden"}], False)
    shell = {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 0, "cancelled": False}
    pi.call("appendMessage", shell | {"truncated": False, "timestamp": 1733234567893})
    pi.call("appendLabelChange", first, "mark")
    pi.call("appendSessionInfo", "A name")
    pi.call("branchWithSummary", first, "Went elsewhere.", {"modifiedFiles": []})
    pi.call("appendMessage", asked("four"))
    pi.call("branch", kept)
    pi.call("appendMessage", asked("five"))
    state = await agreed(pi, files)
    assert (len(state["ids"]), state["labels"], state["name"]) == (17, {first: "mark"}, "A name")


async def test_a_file_of_ours_with_everything_in_it_opens_there(pi: PiAgent, tmp_path: Path) -> None:
    files = Files(tmp_path)
    await files.store.reset(TOP, 12)
    async with await files.store.open(TOP) as session:
        await session.append_custom_message("mikan.history", "ada: hi", mark=Mark(log=3))
        first = await session.append_message(parse_message(asked("one")), Mark("run-1", 4))
        await session.append_message(parse_message(answered("two", "a", "b")))
        for call in ("a", "b"):
            await session.append_message(parse_message(result(call)))
        kept = await session.append_message(parse_message(answered("three")))
        await session.append_model_change("anthropic", "claude-sonnet-4-5")
        await session.append_thinking_level_change("low")
        await session.append_compaction("S", kept, 50_000, {"readFiles": []})
        await session.append_custom("ext", {"count": 42})
        await session.append_custom_message("ext", [TextContent(text="hidden")], display=False, details=[1])
        await session.append_label(first, "mark")
        await session.append_label(kept, "gone")
        await session.append_label(kept, None)
        await session.append_session_info("A name")
        await session.branch_with_summary(first, "Went elsewhere.", {"modifiedFiles": []})
        await session.append_message(parse_message(asked("four \ud800 é \u2028")))
    state = await agreed(pi, files)
    assert (len(state["ids"]), state["labels"]) == (17, {first: "mark"})
    assert state["header"]["mikan"] == {"log": 12}


async def test_both_write_in_turn_and_nothing_of_either_is_lost(pi: PiAgent, tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with await files.store.open(TOP) as session:
        await session.append_message(parse_message(asked("one")), Mark("run-1", 1))
    before = files.current.read_bytes()
    for turn in range(3):
        pi.open(files.current)
        pi.call("appendMessage", answered(f"theirs {turn}"))
        pi.call("appendMessage", asked(f"to them {turn}"))
        assert (await agreed(pi, files))["leaf"] == pi.call("getLeafId")
        async with await files.store.open(TOP) as session:
            assert session.known_log == turn + 1
            await session.append_message(parse_message(answered(f"ours {turn}")))
            await session.append_message(parse_message(asked(f"to us {turn}")), Mark(f"run-{turn + 2}", turn + 2))
        await agreed(pi, files)
        assert files.current.read_bytes().startswith(before)
        before = files.current.read_bytes()


@pytest.mark.parametrize("version", [1, 2])
async def test_an_old_file_means_the_same_to_both(pi: PiAgent, tmp_path: Path, version: int) -> None:
    header = {"type": "session", "id": "old", "timestamp": "2024-12-03T14:00:00.000Z", "cwd": "/p"}
    hook = {"role": "hookMessage", "customType": "h", "content": "hook", "display": True, "timestamp": 2}
    said = [asked("one"), hook, answered("three")]
    entries: list[dict[str, Any]] = [{"type": "message", "message": message} for message in said]
    entries += [{"type": "compaction", "summary": "S", "tokensBefore": 9}, {"type": "message", "message": asked("six")}]
    for number, entry in enumerate(entries):
        entry["timestamp"] = f"2024-12-03T14:00:0{number}.000Z"
        if version == 2:
            entry |= {"id": f"e{number}", "parentId": f"e{number - 1}" if number else None}
    entries[3] |= {"firstKeptEntryId": "e1"} if version == 2 else {"firstKeptEntryIndex": 2}
    content = "".join(json.dumps(line) + "\n" for line in [header | {"version": version}, *entries])
    seen = []
    for name in ("theirs.jsonl", "ours.jsonl"):
        directory = tmp_path / name.removesuffix(".jsonl")
        directory.mkdir()
        files = Files(directory)
        (directory / name).write_text(content)
        files.adopt(directory / name)
        if name == "theirs.jsonl":
            pi.open(files.current)  # migrates
        else:
            await (await files.store.open(TOP)).close()
        state = await agreed(pi, files)
        seen.append([state["contexts"][entry_id] for entry_id in state["ids"]])
    assert seen[0] == seen[1]
    assert [m["role"] for m in seen[0][-1]["messages"]] == ["compactionSummary", "custom", "assistant", "user"]


_STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(["ask", "answer", "branch", "compact", "label", "level", "model", "custom", "left"]),
        st.integers(0, 30),
    ),
    max_size=20,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS)
def test_whatever_either_does_both_see_the_same(
    pi: PiAgent, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, str, int]]
) -> None:
    asyncio.run(_play(pi, Files(tmp_path_factory.mktemp("sessions")), steps))


async def _play(pi: PiAgent, files: Files, steps: list[tuple[bool, str, int]]) -> None:
    async with await files.store.open(TOP) as session:
        await session.append_message(parse_message(asked("begin")))
        await session.append_message(parse_message(answered("begun")))
    for theirs, step, number in steps:
        if theirs:
            pi.open(files.current)
            _act_there(pi, step, number)
        else:
            async with await files.store.open(TOP) as session:
                await _act_here(session, step, number)
    await agreed(pi, files)


def _act_there(pi: PiAgent, step: str, number: int) -> None:
    branch = [entry["id"] for entry in pi.call("getBranch")]
    chosen = branch[number % len(branch)]
    match step:
        case "ask":
            pi.call("appendMessage", asked(str(number)))
        case "answer":
            pi.call("appendMessage", answered(str(number)))
        case "branch":
            pi.call("branch", chosen)
            pi.call("appendMessage", asked(str(number)))
        case "compact":
            pi.call("appendCompaction", f"S{number}", chosen, number)
        case "label":
            pi.call("appendLabelChange", chosen, f"l{number}" if number % 3 else None)
        case "level":
            pi.call("appendThinkingLevelChange", ("low", "high")[number % 2])
        case "model":
            pi.call("appendModelChange", "p", f"m{number}")
        case "custom":
            pi.call("appendCustomMessageEntry", "x", f"c{number}", True)
        case _:
            pi.call("branchWithSummary", chosen, f"left {number}")


async def _act_here(session: Session, step: str, number: int) -> None:
    branch = session.branch_path()
    chosen = branch[number % len(branch)].id
    match step:
        case "ask":
            await session.append_message(parse_message(asked(str(number))), Mark(f"r{number}", number))
        case "answer":
            await session.append_message(parse_message(answered(str(number))))
        case "branch":
            session.branch(chosen)
            await session.append_message(parse_message(asked(str(number))))
        case "compact":
            await session.append_compaction(f"S{number}", chosen, number)
        case "label":
            await session.append_label(chosen, f"l{number}" if number % 3 else None)
        case "level":
            await session.append_thinking_level_change(("low", "high")[number % 2])
        case "model":
            await session.append_model_change("p", f"m{number}")
        case "custom":
            await session.append_custom_message("x", f"c{number}")
        case _:
            await session.branch_with_summary(chosen, f"left {number}")
