"""Implements the turn loop's hooks by asking every handler in the order of registration.

A handler that raises, takes too long or returns what its hook has no meaning for is logged and skipped. ``tool_call``
takes the first answer that is one; ``before_agent_start`` and ``tool_result`` chain; a block at the start wins,
whatever the order (the seeds, "Extension interface"). Handlers are given copies of what could be changed in place.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal, TypeVar

from mikan_agent.extensions.events import (
    AgentErrorEvent,
    BudgetEvent,
    CompactEvent,
    HookName,
    MessageEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnEvent,
)
from mikan_agent.extensions.exceptions import WrongResult
from mikan_agent.extensions.registry import Registration, Registry
from mikan_agent.extensions.tools import checked_parts
from mikan_agent.harness.hooks import Blocked, Origin, Start, ToolResult
from mikan_agent.messages import AssistantMessage, ToolCall, ToolResultMessage
from mikan_api.responder import Usage

T = TypeVar("T")


class ExtensionHooks:
    """Implements `mikan_agent.harness.hooks.Hooks`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def before_agent_start(self, start: Start) -> Start | Blocked:
        """Every handler is asked, each with what the earlier ones made of it, also after a block: some only watch."""
        blocked: Blocked | None = None
        for registered in self._registry.handlers("before_agent_start"):
            answer = await _ask("before_agent_start", registered, start, _start)
            if isinstance(answer, Blocked):
                blocked = blocked or answer
            elif answer is not None:
                start = Start(answer.system_prompt, answer.prompt, start.origin)
        return blocked or start

    async def tool_call(self, call: ToolCall, origin: Origin) -> Blocked | None:
        """The first block."""
        for registered in self._registry.handlers("tool_call"):
            event = ToolCallEvent(call.model_copy(deep=True), origin)
            if (answer := await _ask("tool_call", registered, event, _blocked)) is not None:
                return answer
        return None

    async def tool_result(self, result: ToolResult, origin: Origin) -> ToolResult:
        """What the last handler made of it."""
        for registered in self._registry.handlers("tool_result"):
            event = ToolResultEvent(
                replace(result, content=tuple(result.content), details=deepcopy(result.details)), origin
            )
            answer = await _ask("tool_result", registered, event, _tool_result)
            if answer is not None:
                result = ToolResult(result.call, answer.content, answer.is_error, answer.details)
        return result

    async def message_end(self, message: AssistantMessage | ToolResultMessage, origin: Origin) -> None:
        if self._registry.handlers("message_end"):
            await self._tell("message_end", MessageEvent(message.model_copy(deep=True), origin))

    async def turn_end(self, message: AssistantMessage, results: Sequence[ToolResultMessage], origin: Origin) -> None:
        if self._registry.handlers("turn_end"):
            copies = tuple(result.model_copy(deep=True) for result in results)
            await self._tell("turn_end", TurnEvent(message.model_copy(deep=True), copies, origin))

    async def session_compact(self, reason: Literal["threshold", "overflow"], tokens_before: int) -> None:
        await self._tell("session_compact", CompactEvent(reason, tokens_before))

    async def agent_error(self, error: str, origin: Origin) -> None:
        await self._tell("agent_error", AgentErrorEvent(error, origin))

    async def budget_exceeded(self, detail: str, usage: Usage, origin: Origin) -> None:
        await self._tell("budget_exceeded", BudgetEvent(detail, usage, origin))

    async def _tell(self, hook: HookName, event: object) -> None:
        """Handlers that only watch; what they return means nothing."""
        for registered in self._registry.handlers(hook):
            await _ask(hook, registered, event, lambda _: None)


async def _ask(hook: HookName, registered: Registration, event: object, accept: Callable[[Any], T]) -> T | None:
    extension = registered.extension
    try:
        answer = await extension.call(registered.handler, event, seconds=extension.limits.hook)
        return None if answer is None else accept(answer)
    except Exception as error:  # noqa: BLE001  an extension breaks nothing else
        extension.log.failed(f"handler of {hook}", error)
        return None


def _start(answer: object) -> Start | Blocked:
    if isinstance(answer, Start):
        _check("prompts", all(isinstance(text, str) for text in (answer.system_prompt, answer.prompt)))
        return answer
    return _blocked(answer, "a Start, a Blocked or None")


def _blocked(answer: object, expected: str = "a Blocked or None") -> Blocked:
    if not isinstance(answer, Blocked):
        raise WrongResult(f"it returns {expected}, not {type(answer).__name__}")
    _check("reason", isinstance(answer.reason, str))
    return answer


def _tool_result(answer: object) -> ToolResult:
    if not isinstance(answer, ToolResult):
        raise WrongResult(f"it returns a ToolResult or None, not {type(answer).__name__}")
    _check("is_error", isinstance(answer.is_error, bool))
    content, details = checked_parts(answer.content, answer.details)
    return ToolResult(answer.call, content, answer.is_error, details)


def _check(field: str, right: bool) -> None:
    if not right:
        raise WrongResult(f"{field}: of a wrong type")
