"""``subagent``: delegate one task to a fresh agent with a named profile."""

import json
from datetime import timedelta
from typing import Any

from pydantic import Field, JsonValue

from mikan_agent.exceptions import ToolError
from mikan_agent.subagents.profiles import BUILT_IN
from mikan_agent.subagents.request import SubagentRequest, SubagentResult, SubagentStatus
from mikan_agent.tools.tool import ToolArguments, ToolContext, ToolOutput, one_line, text_output

MAX_ANSWER = 50_000
"""Characters of an answer that go back to the model."""


class SubagentArguments(ToolArguments):
    """Arguments of ``subagent``."""

    profile: str = Field(description=f"Which kind of subagent: {', '.join(BUILT_IN)}, or one that was added here")
    task: str = Field(description="The task, complete in itself: the subagent knows nothing of this conversation")
    input: JsonValue = Field(default=None, description="Material for the task, as JSON")
    tools: tuple[str, ...] | None = Field(default=None, description="Fewer tools than the profile grants")
    output_schema: dict[str, Any] | None = Field(
        default=None, description="JSON Schema; the result is then exactly a JSON value that fits it"
    )
    max_turns: int | None = Field(default=None, ge=1, description="Fewer model calls than the profile allows")
    max_cost_usd: float | None = Field(default=None, gt=0, description="Less money than the profile allows")
    max_seconds: int | None = Field(default=None, ge=1, description="Less time than the profile allows")


class SubagentTool:
    """Delegates."""

    name = "subagent"
    description = (
        "Have a subagent do one well-described task on its own and return its result. It works in the same office, but "
        "sees nothing of this conversation and can't ask back. Several calls at once run side by side. Use it for work "
        "that would fill this conversation with material: searching, reviewing, analysing."
    )
    arguments = SubagentArguments
    parallel = True

    def label(self, arguments: SubagentArguments) -> str:
        """What is delegated, to whom."""
        return one_line(arguments.label or f"{arguments.profile}: {arguments.task}", 120)

    async def run(self, arguments: SubagentArguments, context: ToolContext) -> ToolOutput:
        """Wait for the result."""
        if context.delegate is None:
            raise ToolError("A subagent can't start another one.")
        limit = None if arguments.max_seconds is None else timedelta(seconds=arguments.max_seconds)
        request = SubagentRequest(
            profile=arguments.profile,
            task=arguments.task,
            input=arguments.input,
            tools=arguments.tools,
            output_schema=arguments.output_schema,
            max_turns=arguments.max_turns,
            max_cost_usd=arguments.max_cost_usd,
            max_duration=limit,
        )
        result = await context.delegate(request, context.progress)
        return text_output(_told(result), _details(result), failed=result.status is not SubagentStatus.COMPLETED)


def _told(result: SubagentResult) -> str:
    text = json.dumps(result.output, ensure_ascii=False) if result.output is not None else result.text
    if len(text) > MAX_ANSWER:
        text = f"{text[:MAX_ANSWER]}\n[cut here: {len(text)} characters]"
    if result.status is SubagentStatus.COMPLETED:
        return text or "(the subagent said nothing)"
    said = f"\n\nWhat it had said so far:\n{text}" if text.strip() else ""
    return f"The subagent ended with {result.status.value}: {result.error}{said}"


def _details(result: SubagentResult) -> JsonValue:
    return {
        "runId": result.run_id,
        "status": result.status.value,
        "model": result.model,
        "turns": result.turns,
        "tokens": result.tokens,
        "costUsd": result.cost_usd,
        "seconds": round(result.duration.total_seconds(), 3),
    }
