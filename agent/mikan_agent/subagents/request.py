"""What a subagent is asked, and what comes of it."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from pydantic import JsonValue

MAX_TASK = 200_000
"""Characters of a task with its input."""


@dataclass(frozen=True, slots=True)
class SubagentRequest:
    """One task. The caps can only tighten those of the profile."""

    profile: str
    task: str
    input: JsonValue = None
    """Material for the task; given to the subagent as JSON."""
    tools: tuple[str, ...] | None = None
    """A choice of the profile's tools; absent: all of them."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema; the answer must then be exactly a JSON value that fits it."""
    max_turns: int | None = None
    max_cost_usd: float | None = None
    max_duration: timedelta | None = None

    @property
    def caps_are_positive(self) -> bool:
        """Whether each cap, if it is there, lets anything be done."""
        seconds = None if self.max_duration is None else self.max_duration.total_seconds()
        return all(cap is None or cap > 0 for cap in (self.max_turns, self.max_cost_usd, seconds))

    def prompt(self) -> str:
        """The task as the subagent reads it."""
        if self.input is None:
            return self.task
        return f"{self.task}\n\n<input>\n{json.dumps(self.input, ensure_ascii=False, indent=1)}\n</input>"


class SubagentStatus(StrEnum):
    """How a subagent ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    BUDGET_EXCEEDED = "budget_exceeded"
    INVALID_OUTPUT = "invalid_output"


@dataclass(frozen=True, slots=True)
class SubagentResult:
    """How one subagent ended, and what it said."""

    run_id: str
    status: SubagentStatus
    text: str = ""
    """Its answer, as far as it came."""
    output: JsonValue = None
    """The answer as JSON, where a schema was given and it fits."""
    error: str = ""
    model: str = ""
    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    duration: timedelta = field(default_factory=timedelta)
