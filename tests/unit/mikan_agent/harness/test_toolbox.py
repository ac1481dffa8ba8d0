"""What a model reads of a call that its sandbox did not answer."""

from pathlib import PurePosixPath
from typing import Any, cast

import pytest

from agent_peers.clock import VirtualClock
from mikan_agent.answer_text import AnswerText
from mikan_agent.executor.exceptions import ConnectionLost, ExecutorError, FileMissing, ProtocolViolation
from mikan_agent.executor.ports import Executor
from mikan_agent.harness.responder import Responder
from mikan_agent.harness.toolbox import Toolbox
from mikan_agent.messages import ToolCall
from mikan_agent.outbox import Outbox
from mikan_agent.sandbox import Sandbox
from mikan_agent.tools.tool import ToolArguments, ToolContext, ToolOutput, Uploads

UNKNOWN = "What became of this call is unknown: it may have run not at all, in part or whole. Look before repeating it."


class _NoArguments(ToolArguments):
    """None."""


class _Failing:
    name, description, arguments = "poke", "Pokes.", _NoArguments

    def __init__(self, error: ExecutorError) -> None:
        self._error = error

    def label(self, arguments: Any) -> str:
        return "poke"

    @property
    def parallel(self) -> bool:
        return False

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutput:
        raise self._error


class _Ready:
    async def ready(self, responder: Responder) -> None:
        return None


def _shown(_: AnswerText) -> None:
    return None


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionLost("connection to the sandbox broke"), f"connection to the sandbox broke. {UNKNOWN}"),
        (ProtocolViolation("a frame is short"), f"a frame is short. {UNKNOWN}"),
        (FileMissing("no such file"), "no such file"),
    ],
)
async def test_a_call_says_whether_its_outcome_is_known(error: ExecutorError, text: str) -> None:
    clock = VirtualClock()
    toolbox = Toolbox((_Failing(error),), cast(Sandbox, _Ready()), clock)
    responder = Responder("r1", Outbox(), _shown, clock)

    result = await toolbox.run(
        ToolCall(id="c1", name="poke"),
        None,
        lambda: ToolContext(cast(Executor, None), PurePosixPath("/office"), cast(Uploads, None)),
        responder,
    )

    assert (result.text, result.is_error) == (text, True)
