"""What authors of extensions import, and all that they may rely on::

    from mikan_agent.extensions.api import ExtensionApi, ToolCallEvent, Blocked

    def activate(api: ExtensionApi) -> None:
        api.on("tool_call", no_deletions)

    async def no_deletions(event: ToolCallEvent) -> Blocked | None:
        if event.call.name == "bash" and "rm -rf" in str(event.call.arguments):
            return Blocked("This office deletes nothing.")
        return None

``activate`` is called once for each session's runner. It, and every function given to the api, may be a coroutine
function, which runs on the event loop and must not block it, or a plain function, which runs in a thread that the
extension has for itself. Each has a time limit (`Limits`). ``docs/extensions.md`` tells the rest.
"""

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, overload

from pydantic import BaseModel, Field, JsonValue

from mikan_agent.exceptions import RequestFailed, ToolError
from mikan_agent.extensions.calls import Limits, is_async
from mikan_agent.extensions.commands import CommandCall, CommandFunction, ExtensionCommand
from mikan_agent.extensions.events import (
    AgentErrorEvent,
    Blocked,
    BudgetEvent,
    CompactEvent,
    HookName,
    MessageEvent,
    Origin,
    Start,
    ToolCallEvent,
    ToolResult,
    ToolResultEvent,
    TurnEvent,
    map_text,
)
from mikan_agent.extensions.exceptions import CapabilityUnavailable, ExtensionError, RegistrationRefused
from mikan_agent.extensions.extension import Extension
from mikan_agent.extensions.ports import (
    ConversationHost,
    ExtensionContext,
    ExtensionHost,
    Schedule,
)
from mikan_agent.extensions.registry import Disposer, Registry
from mikan_agent.extensions.schedules import Schedules
from mikan_agent.extensions.secrets import Secrets
from mikan_agent.extensions.tools import (
    HostExtensionTool,
    HostFunction,
    SandboxExtensionTool,
    SandboxFunction,
)
from mikan_agent.subagents.request import SubagentRequest, SubagentResult, SubagentStatus
from mikan_agent.tools.tool import ToolArguments, ToolContext, ToolOutput

__all__ = [
    "AgentErrorEvent",
    "Blocked",
    "BudgetEvent",
    "CapabilityUnavailable",
    "CommandCall",
    "CompactEvent",
    "ExtensionApi",
    "ExtensionContext",
    "ExtensionError",
    "ExtensionPaths",
    "Field",
    "HookName",
    "Limits",
    "MessageEvent",
    "Origin",
    "RegistrationRefused",
    "RequestFailed",
    "Schedule",
    "Schedules",
    "Secrets",
    "Start",
    "SubagentResult",
    "SubagentStatus",
    "Subagents",
    "ToolArguments",
    "ToolCallEvent",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "ToolResult",
    "ToolResultEvent",
    "TurnEvent",
    "map_text",
]

Event = TypeVar("Event")
Answer = TypeVar("Answer")
Handler: TypeAlias = Callable[[Event], Awaitable[Answer | None] | Answer | None]


class ExtensionPaths:
    """Directories for an extension's data, made when they are first asked for. No sandbox sees them."""

    def __init__(self, data: Path, shared: Path) -> None:
        self._data, self._shared = data, shared

    @property
    def data_dir(self) -> Path:
        """This extension's own, in this conversation. What it holds outlives the extension."""
        return _made(self._data)

    @property
    def shared_data_dir(self) -> Path:
        """This extension's own in all conversations at once: their agents are processes of their own, so write by
        rename or with a lock, and keep what belongs to one conversation under its office key."""
        return _made(self._shared)


class Subagents:
    """Fresh agents for one task each."""

    def __init__(self, host: ExtensionHost) -> None:
        self._host = host

    async def run(
        self,
        task: str,
        *,
        profile: str = "analysis-only",
        input: JsonValue = None,  # noqa: A002  what it is called where subagents are described
        tools: tuple[str, ...] = (),
        output: type[BaseModel] | None = None,
        max_turns: int | None = None,
        max_cost_usd: float | None = None,
        max_duration: timedelta | None = None,
    ) -> SubagentResult:
        """Run one to its end and return how it ended; a failure is a status of the result, not an exception.

        It knows nothing of the conversation but what it is given, nothing of it is recorded, and the run under way pays
        for it.

        Args:
            task: what to do.
            profile: one of the named profiles.
            input: material for the task, given as JSON.
            tools: those of the profile's tools that it may use; none by default.
            output: its answer must be exactly JSON of this model; ``output.model_validate(result.output)`` reads it.
            max_turns: with ``max_cost_usd`` and ``max_duration``, tighter caps than the profile's.

        Raises:
            CapabilityUnavailable: this host runs no subagents, or no run is under way.
        """
        if self._host.subagents is None:
            raise CapabilityUnavailable("this host runs no subagents")
        return await self._host.subagents.run(
            SubagentRequest(
                profile=profile,
                task=task,
                input=input,
                tools=tools,
                output_schema=output.model_json_schema() if output else None,
                max_turns=max_turns,
                max_cost_usd=max_cost_usd,
                max_duration=max_duration,
            )
        )


class ExtensionApi:
    """One extension's view of the runner that it extends."""

    def __init__(self, extension: Extension, registry: Registry, host: ExtensionHost) -> None:
        self._extension, self._registry, self._host = extension, registry, host
        self.paths = ExtensionPaths(host.data / extension.slug, host.shared_data / extension.package / extension.slug)
        """Where to keep data."""
        self.secrets = extension.secrets
        """The Secret ``mikan-extension-<slug>``; read-only, and read anew each time."""
        self.schedules = Schedules(extension, host)
        """Runs by the clock."""
        self.subagent = Subagents(host)
        """Fresh agents for one task each."""

    @property
    def slug(self) -> str:
        """This extension's name, from that of its file or directory."""
        return self._extension.slug

    @property
    def context(self) -> ExtensionContext:
        """The conversation and the model, as they are now."""
        return self._host.context()

    @overload
    def on(self, hook: Literal["before_agent_start"], handler: Handler[Start, Start | Blocked]) -> None: ...
    @overload
    def on(self, hook: Literal["tool_call"], handler: Handler[ToolCallEvent, Blocked]) -> None: ...
    @overload
    def on(self, hook: Literal["tool_result"], handler: Handler[ToolResultEvent, ToolResult]) -> None: ...
    @overload
    def on(self, hook: Literal["message_end"], handler: Handler[MessageEvent, None]) -> None: ...
    @overload
    def on(self, hook: Literal["turn_end"], handler: Handler[TurnEvent, None]) -> None: ...
    @overload
    def on(self, hook: Literal["session_compact"], handler: Handler[CompactEvent, None]) -> None: ...
    @overload
    def on(self, hook: Literal["agent_error"], handler: Handler[AgentErrorEvent, None]) -> None: ...
    @overload
    def on(self, hook: Literal["budget_exceeded"], handler: Handler[BudgetEvent, None]) -> None: ...
    def on(self, hook: str, handler: Callable[[Any], Any]) -> None:
        """Have ``handler`` called at a hook, after the handlers that were registered before.

        ================== ===================================== ========================================
        Hook               When                                  What a handler may return
        ================== ===================================== ========================================
        before_agent_start before the first model call of a run  a `Start` with other prompts; `Blocked`
        tool_call          before a tool runs                    `Blocked`; the first one decides
        tool_result        after it ran, before it is recorded   a `ToolResult` to take its place
        message_end        a message is recorded                 nothing
        turn_end           a model call and its tools are over   nothing
        session_compact    the session's older part is summarised nothing
        agent_error        the run ended in an error             nothing
        budget_exceeded    a cap ended the run                   nothing
        ================== ===================================== ========================================

        ``None`` leaves things as they are. Each handler of the first and the third sees what the ones before made; a
        block at the start wins, whatever the order. An error, a wrong result, or more than `Limits.hook` seconds are
        logged, and the handler is skipped.

        Raises:
            RegistrationRefused: there is no such hook, or the handler is no function.
        """
        self._registry.add_handler(hook, self._extension, handler)

    def register_tool(
        self,
        name: str,
        description: str,
        arguments: type[ToolArguments],
        run: HostFunction,
        *,
        parallel: bool = False,
    ) -> None:
        """Offer the model a tool that works in this process. A name that is built in or taken is left out, and logged.

        Args:
            name: what the model calls it by.
            description: what the model reads of it.
            arguments: a model of its arguments, whose fields have descriptions.
            run: coroutine function ``(arguments)`` that returns a text or a `ToolOutput`. What the model can act on is
                raised as `ToolError`.
            parallel: it changes nothing, so that calls of it may run at the same time.

        Raises:
            RegistrationRefused: no such name, no model of arguments, or no coroutine function.
        """
        _check_tool(name, description, arguments, run)
        tool = HostExtensionTool(self._extension, name, description, arguments, parallel, run)
        self._registry.add_tool(tool)

    def register_sandbox_tool(
        self,
        name: str,
        description: str,
        arguments: type[ToolArguments],
        run: SandboxFunction,
        *,
        parallel: bool = False,
    ) -> None:
        """Offer the model a tool that uses the office's sandbox; each call waits until that is there.

        As `register_tool`, but ``run`` takes ``(arguments, context)``: ``context.executor`` runs commands and moves
        files in the sandbox.
        """
        _check_tool(name, description, arguments, run)
        tool = SandboxExtensionTool(self._extension, name, description, arguments, parallel, run)
        self._registry.add_tool(tool)

    def register_command(self, name: str, description: str, handler: CommandFunction, *, usage: str = "") -> None:
        """Answer ``/name`` in the chat, in any case, with no model. Built-in commands and earlier ones of a name win.

        Args:
            name: without the slash.
            description: for people.
            handler: called with a `CommandCall`; posts what it returns, or what it gives to ``call.respond``.
            usage: what may stand after the name, for people.

        Raises:
            RegistrationRefused: no such name, or no function.
        """
        self._registry.add_command(ExtensionCommand(self._extension, name.lower(), description, handler, usage))

    def on_dispose(self, disposer: Disposer) -> None:
        """Have something released on reset, eviction or shutdown; the last one registered goes first."""
        self._registry.add_disposer(self._extension, disposer)

    async def trigger_run(self, text: str) -> None:
        """Have a run of this conversation begin as soon as it can. It has no history but ``text``; no secrets in it.

        Raises:
            CapabilityUnavailable: this host starts no runs.
            ExtensionError: the text holds a secret, or is empty or too long.
            RequestFailed: the gateway refuses, or does not answer.
        """
        await self.schedules.trigger(text)

    async def notify(self, text: str) -> None:
        """Post a message into this conversation, with no run.

        Raises:
            CapabilityUnavailable: this host posts nothing outside of runs.
            RequestFailed: the gateway refuses, or does not answer.
        """
        await self._conversation("posts no messages outside of runs").notify(text)

    async def react(self, message_id: str, emoji: str) -> None:
        """Put a reaction on a message of this conversation, such as ``origin.message_id``.

        Raises:
            CapabilityUnavailable: this host has no reactions.
            RequestFailed: the gateway or the platform refuses, or does not answer.
        """
        await self._conversation("has no reactions").react(message_id, emoji)

    async def upload_file(self, path: Path | str, title: str = "") -> None:
        """Send a file of this process's, such as one in ``paths.data_dir``, into this conversation.

        Raises:
            CapabilityUnavailable: this host takes no files.
            RequestFailed: there is no such file, or the gateway refuses it or does not answer.
        """
        file = Path(path)
        await self._conversation("takes no files").upload(file, title or file.name)

    def log(self, message: str, level: Literal["debug", "info", "warning", "error"] = "info") -> None:
        """An entry in the agent's log, under this extension's name; values of its secrets are masked."""
        self._extension.log.write(_LEVELS[level], message)

    def _conversation(self, lacks: str) -> ConversationHost:
        if self._host.conversation is None:
            raise CapabilityUnavailable(f"this host {lacks}")
        return self._host.conversation


_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def _check_tool(name: str, description: object, arguments: object, run: object) -> None:
    if not isinstance(description, str):
        raise RegistrationRefused(f"the description of the tool {name} is no text")
    if not (isinstance(arguments, type) and issubclass(arguments, ToolArguments)):
        raise RegistrationRefused(f"the arguments of the tool {name} are no subclass of ToolArguments")
    try:
        json.dumps(arguments.model_json_schema())
    except Exception as error:
        raise RegistrationRefused(f"the arguments of the tool {name} have no JSON Schema: {error}") from error
    if not callable(run) or not is_async(run):
        raise RegistrationRefused(f"the tool {name} has no coroutine function (async def)")


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory
