"""From a model's tool calls to their results: looked up, checked, run, each with a status line.

Whatever a tool raises becomes a result that the model can act on; only a cancellation passes through.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mikan_agent.clock import Clock, unix_ms
from mikan_agent.exceptions import ToolError, TransferFailed
from mikan_agent.executor.exceptions import ConnectionLost, ExecutorError, ExecutorUnavailable
from mikan_agent.harness.responder import Responder
from mikan_agent.harness.transcript import encode
from mikan_agent.messages import ToolCall, ToolResultMessage
from mikan_agent.sandbox import Sandbox
from mikan_agent.tools.tool import (
    HostTool,
    Tool,
    ToolContext,
    ToolOutput,
    one_line,
    parse_arguments,
    schema,
    text_output,
)
from mikan_api.kill_points import Step, around

logger = logging.getLogger(__name__)

_UNKNOWN = (
    "What became of this call is unknown: it may have run not at all, in part or whole. Look before repeating it."
)


class Toolbox:
    """The tools of an office."""

    def __init__(self, tools: Sequence[Tool], sandbox: Sandbox, clock: Clock) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.names = tuple(self._tools)
        self._sandbox, self._clock = sandbox, clock
        self.schemas: list[dict[str, Any]] = [schema(tool) for tool in tools]
        """The tools in the form of OpenAI's ``tools``."""
        self.size = len(encode({"tools": self.schemas}))
        """Bytes of the same as JSON; measured once, and not with every run."""

    def with_more(self, tools: Sequence[Tool]) -> "Toolbox":
        """The same tools, and some whose names are free."""
        return Toolbox([*self._tools.values(), *tools], self._sandbox, self._clock) if tools else self

    def only(self, names: Sequence[str]) -> "Toolbox":
        """The same tools, but only those named."""
        return Toolbox([self._tools[name] for name in names], self._sandbox, self._clock)

    def parallel(self, call: ToolCall) -> bool:
        """Whether a call may run beside others of its kind: it changes nothing that they could see."""
        tool = self._tools.get(call.name)
        return tool is not None and tool.parallel

    async def refuse(self, call: ToolCall, reason: str, responder: Responder) -> ToolResultMessage:
        """The result of a call that is not carried out."""
        await responder.tool_status(call.id, one_line(call.name or "tool"), "failed")
        return self._result(call, text_output(reason), True)

    async def run(
        self, call: ToolCall, fault: str | None, context: Callable[[], ToolContext], responder: Responder
    ) -> ToolResultMessage:
        """Run one call. ``fault``: why its arguments could not even be read.

        ``context`` is asked once the sandbox is there.
        """
        label, output, failed = one_line(call.name or "tool"), text_output(""), True

        async def progress(words: str) -> None:
            await responder.tool_status(call.id, one_line(f"{label}: {words}"), "running")

        try:
            tool, arguments = self._checked(call, fault)
            label = tool.label(arguments)
            await responder.tool_status(call.id, label, "running")
            if not isinstance(tool, HostTool):
                await self._sandbox.ready(responder)
            with around(Step.TOOL_RUN):
                if isinstance(tool, HostTool):
                    output = await tool.answer(arguments)
                else:
                    output = await tool.run(arguments, replace(context(), progress=progress))
            failed = output.failed
        except (ToolError, ExecutorError, TransferFailed) as error:
            output = text_output(f"{error}. {_UNKNOWN}" if isinstance(error, ConnectionLost) else str(error))
            if isinstance(error, ExecutorUnavailable):
                await responder.warn_once(f"The sandbox is not there, so no command can run: {error}")
        except Exception:
            logger.exception("a tool broke", extra={"tool": call.name, "run": responder.run_id})
            output = text_output("The tool failed with an internal error; its details are in the agent's log.")
        finally:
            await responder.tool_status(call.id, label, "failed" if failed else "done")
        return self._result(call, output, failed)

    def _checked(self, call: ToolCall, fault: str | None) -> tuple[Tool, Any]:
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(f"There is no tool {call.name[:80]!r}. There are: {', '.join(self._tools)}.")
        if fault:
            raise ToolError(fault)
        return tool, parse_arguments(tool, call.arguments)

    def _result(self, call: ToolCall, output: ToolOutput, failed: bool) -> ToolResultMessage:
        return ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=output.content,
            details=output.details,
            is_error=failed,
            timestamp=unix_ms(self._clock),
        )
