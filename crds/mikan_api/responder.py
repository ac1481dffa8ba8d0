"""Responder operations: all that an agent may make appear in a conversation.

Platform-neutral Markdown (GFM), mentions as ``<@userName>``. The agent numbers them, the gateway acknowledges each once
it is durable and applies those of one run in order. Streamed text is not among them: a `mikan_api.wire.Delta` may be
lost, since `Respond` carries the whole answer.
"""

import math
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mikan_api.base import OpenModel

MAX_TEXT = 1_000_000


class RunOutcome(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"
    BUDGET_EXCEEDED = "budget_exceeded"
    HANDED_BACK = "handed_back"
    """The agent was told to end before the run began; deliver it again."""


MAX_COUNT = 2**53
"""Of anything that is counted: what databases and JSON hold exactly."""


def _count(value: int) -> int:
    return min(max(value, 0), MAX_COUNT)


def _cost(value: float) -> float:
    return min(max(value, 0.0), float(MAX_COUNT)) if math.isfinite(value) else 0.0


Count = Annotated[int, AfterValidator(_count)]


class Usage(OpenModel):
    """What a run or a model call consumed. No sum is made wrong by what no upstream can have meant: it counts as the
    nearest that one can."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: Annotated[float, AfterValidator(_cost)] = 0.0
    model_calls: Count = 0


class RunStarted(OpenModel):
    """The run's message is in the session; from here on it is never delivered again."""

    type: Literal["run_started"] = "run_started"


class ToolStatus(OpenModel):
    """A tool call began or ended; shown as progress."""

    type: Literal["tool_status"] = "tool_status"
    call_id: str
    label: Annotated[str, Field(max_length=2_000)]
    state: Literal["running", "done", "failed"] = "running"


class Working(OpenModel):
    """A passing state worth a word, such as a sandbox that is still starting; empty clears it."""

    type: Literal["working"] = "working"
    label: Annotated[str, Field(max_length=500)] = ""


class Respond(OpenModel):
    """The answer, whole; ends what was streamed."""

    type: Literal["respond"] = "respond"
    text: Annotated[str, Field(max_length=MAX_TEXT)]


class ReplaceResponse(OpenModel):
    """Another text in place of the answer."""

    type: Literal["replace_response"] = "replace_response"
    text: Annotated[str, Field(max_length=MAX_TEXT)]


class Diagnostic(OpenModel):
    """A fault the conversation should know of."""

    type: Literal["diagnostic"] = "diagnostic"
    level: Literal["info", "warning", "error"] = "error"
    text: Annotated[str, Field(max_length=10_000)]


class Upload(OpenModel):
    """A file for the conversation; its bytes were uploaded beside the socket under ``blob_id``."""

    type: Literal["upload"] = "upload"
    blob_id: str
    name: str
    title: str = ""
    media_type: str = "application/octet-stream"


class DeleteResponse(OpenModel):
    """Nothing to say: remove the status message."""

    type: Literal["delete_response"] = "delete_response"


class React(OpenModel):
    """A reaction on the message that triggered the run."""

    type: Literal["react"] = "react"
    emoji: Annotated[str, Field(min_length=1, max_length=64)]


class RunFinished(OpenModel):
    """The run is over and its session sealed."""

    type: Literal["run_finished"] = "run_finished"
    outcome: RunOutcome
    usage: Usage = Usage()
    detail: Annotated[str, Field(max_length=2_000)] = ""


ResponderOperation = Annotated[
    RunStarted
    | ToolStatus
    | Working
    | Respond
    | ReplaceResponse
    | Diagnostic
    | Upload
    | DeleteResponse
    | React
    | RunFinished,
    Field(discriminator="type"),
]
