"""Which tool calls run at the same time, and what a session holds of a turn that was cut."""

import asyncio
import json
from pathlib import PurePosixPath
from typing import Any, cast

import pytest

from agent_peers.clock import VirtualClock, settle
from mikan_agent.executor.ports import Executor
from mikan_agent.harness.budgets import Spending
from mikan_agent.harness.completion import Completion
from mikan_agent.harness.hooks import NoHooks, Origin
from mikan_agent.harness.model_calls import ModelCalls, Retries
from mikan_agent.harness.models_client import ModelCall
from mikan_agent.harness.responder import Responder
from mikan_agent.harness.toolbox import Toolbox
from mikan_agent.harness.transcript import Transcript
from mikan_agent.harness.turn import Turn, _groups
from mikan_agent.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, UserMessage
from mikan_agent.outbox import Outbox
from mikan_agent.sandbox import Sandbox
from mikan_agent.sessions.context import LOST_RESULT
from mikan_agent.sessions.session import Session
from mikan_agent.sessions.transient import transient_session
from mikan_agent.tools.tool import HostTool, ToolArguments, ToolContext, ToolOutput, Uploads, text_output
from mikan_api.settings import Budgets, Llm


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        ("", []),
        ("b", ["b"]),
        ("rr", ["rr"]),
        ("rbr", ["r", "b", "r"]),
        ("rrbbrr", ["rr", "b", "b", "rr"]),
        ("rrrrrr", ["rrrr", "rr"]),
    ],
)
def test_neighbours_that_change_nothing_run_together_four_at_most(names: str, groups: list[str]) -> None:
    calls = [ToolCall(id=str(number), name=name) for number, name in enumerate(names)]
    assert ["".join(call.name for call in group) for group in _groups(calls, lambda c: c.name == "r")] == groups


class _Look(HostTool):
    """Answers after a moment."""

    name, description, arguments, parallel = "look", "Looks.", ToolArguments, True

    def label(self, arguments: Any) -> str:
        return "look"

    async def answer(self, arguments: Any) -> ToolOutput:
        await (asyncio.Event().wait() if arguments.label == "for ever" else asyncio.sleep(0))
        return text_output(f"seen {arguments.label}")


class _Models:
    """Says something and looks twice at once, then answers."""

    def __init__(self, *labels: str) -> None:
        self._calls, self._labels = 0, labels

    async def stream(self, call: ModelCall, into: Completion) -> None:
        self._calls += 1
        deltas: list[dict[str, Any]] = [{"content": f"text {self._calls}"}]
        if self._calls == 1:
            looks = [{"name": "look", "arguments": json.dumps({"label": label})} for label in self._labels]
            parts = [{"index": n, "id": f"c{n}", "function": look} for n, look in enumerate(looks)]
            deltas.append({"tool_calls": parts})
        for delta in deltas:
            await asyncio.sleep(0)
            into.feed(json.dumps({"choices": [{"delta": delta}]}))
        into.feed(json.dumps({"choices": [{"finish_reason": "stop"}]}))

    async def window(self, model: str) -> int:
        return 100_000


def _turn(session: Session, clock: VirtualClock, *labels: str) -> Turn:
    responder = Responder("r1", Outbox(), lambda _: None, clock)
    toolbox = Toolbox([_Look()], cast(Sandbox, None), clock)
    context = ToolContext(cast(Executor, None), PurePosixPath("/office"), cast(Uploads, None))
    return Turn(
        session=session,
        transcript=Transcript(session),
        calls=ModelCalls(_Models(*labels), Llm(model="test/model"), Spending(Budgets()), Retries(), clock, responder),
        toolbox=toolbox,
        hooks=NoHooks(),
        origin=Origin("interactive", "console"),
        responder=responder,
        system="",
        context=lambda: context,
        interrupted=lambda: False,
    )


async def _cut_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, list[Message], list[Message]]:
    """Whether a turn was cut after so many steps of the loop; what its session holds, and what a model gets of it."""
    clock = VirtualClock()
    session = transient_session(clock)

    async def append(*what: Any) -> str:
        await asyncio.sleep(0)
        entry_id = session._append_now(*what)
        await asyncio.sleep(0)  # recorded, and whoever waits for it does not know yet
        return entry_id

    monkeypatch.setattr(session, "_append", lambda kind, f, m=None, d=False, mark=None: append(kind, f, m, d, mark))
    await session.append_message(UserMessage(content="go", timestamp=1))
    turn = _turn(session, clock, "a", "b")
    task = asyncio.create_task(turn.run())
    for _ in range(steps):
        await asyncio.sleep(0)
    cut = task.cancel()
    await asyncio.wait({task})
    if cut:
        await turn.seal("aborted")
    held = [message for entry in session.entries if (message := entry.message) is not None]
    return cut, held, list(session.context().messages)


async def test_a_turn_that_is_cut_at_any_step_leaves_nothing_out_and_says_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps, cut = 0, True
    while cut:
        cut, held, sent = await _cut_after(steps, monkeypatch)
        said = [m.text for m in held if isinstance(m, AssistantMessage)]
        calls = [c.id for m in held if isinstance(m, AssistantMessage) for c in m.tool_calls]
        results = [m.tool_call_id for m in held if isinstance(m, ToolResultMessage)]
        assert said == ["text 1", "text 2"][: len(said)], f"cut after {steps} steps"
        assert calls == sorted(results), f"cut after {steps} steps"
        assert sent == held, f"cut after {steps} steps"
        steps += 1
    assert steps > 20
    assert [m.role for m in held] == ["user", "assistant", "toolResult", "toolResult", "assistant"]


async def test_what_calls_gave_that_were_over_when_a_turn_was_cut_is_kept() -> None:
    clock = VirtualClock()
    session = transient_session(clock)
    await session.append_message(UserMessage(content="go", timestamp=1))
    turn = _turn(session, clock, "a", "for ever", "b")
    task = asyncio.create_task(turn.run())
    while len(session.entries) < 3:  # noqa: ASYNC110  the session's own threads
        await asyncio.sleep(0.001)
    await settle()
    task.cancel()
    await asyncio.wait({task})
    await turn.seal("aborted")
    results = [m for m in session.context().messages if isinstance(m, ToolResultMessage)]
    assert [(m.tool_call_id, m.text, m.is_error) for m in results] == [
        ("c0", "seen a", False),
        ("c2", "seen b", False),
        ("c1", LOST_RESULT, True),
    ]
