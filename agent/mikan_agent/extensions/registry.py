"""What the extensions of one runner registered, in order. The first of a name wins; later ones are told."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from mikan_agent.extensions import commands, tools
from mikan_agent.extensions.commands import ExtensionCommand
from mikan_agent.extensions.events import HookName
from mikan_agent.extensions.exceptions import RegistrationRefused
from mikan_agent.extensions.extension import Diagnostic, Extension
from mikan_agent.extensions.tools import ExtensionTool

HOOKS: frozenset[str] = frozenset(get_args(HookName))
Disposer: TypeAlias = Callable[[], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Registration:
    """A handler of a hook."""

    extension: Extension
    handler: Callable[[Any], Any]


class Registry:
    """Registrations, and what had to be left out."""

    def __init__(self, builtin_tools: frozenset[str] = frozenset()) -> None:
        self._builtin_tools = builtin_tools
        self._handlers: dict[str, list[Registration]] = {name: [] for name in HOOKS}
        self._disposers: list[tuple[Extension, Disposer]] = []
        self.tools: dict[str, ExtensionTool] = {}
        self.commands: dict[str, ExtensionCommand] = {}
        self.diagnostics: list[Diagnostic] = []

    def handlers(self, hook: HookName) -> tuple[Registration, ...]:
        """Handlers of a hook in the order of their registration."""
        return tuple(self._handlers[hook])

    def add_handler(self, hook: str, extension: Extension, handler: Callable[[Any], Any]) -> None:
        """Have a handler called from now on."""
        _check_active(extension)
        if hook not in self._handlers:
            raise RegistrationRefused(f"there is no hook {hook!r}; there are: {', '.join(sorted(HOOKS))}")
        _check_callable(f"the handler of {hook}", handler)
        self._handlers[hook].append(Registration(extension, handler))

    def add_tool(self, tool: ExtensionTool) -> None:
        """Offer a tool to the model."""
        _check_active(tool.extension)
        if not re.fullmatch(tools.NAME, tool.name):
            raise RegistrationRefused(f"{tool.name!r} is no name for a tool: 1 to 64 of a-z, A-Z, 0-9, _ and -")
        if tool.name in self._builtin_tools:
            self._leave_out(tool.extension, f"the tool {tool.name} is built in; the extension's is left out")
        elif tool.name in self.tools:
            holder = self.tools[tool.name].extension.slug
            self._leave_out(tool.extension, f"{holder} has a tool {tool.name} already; this one is left out")
        else:
            self.tools[tool.name] = tool

    def add_command(self, command: ExtensionCommand) -> None:
        """Answer a command."""
        _check_active(command.extension)
        if not re.fullmatch(commands.NAME, command.name):
            raise RegistrationRefused(f"{command.name!r} is no name for a command: 1 to 32 of a-z, 0-9, _ and -")
        _check_callable(f"the handler of /{command.name}", command.function)
        if command.name in commands.BUILTIN:
            self._leave_out(command.extension, f"the command /{command.name} is built in; the extension's is left out")
        elif command.name in self.commands:
            holder = self.commands[command.name].extension.slug
            self._leave_out(command.extension, f"{holder} has a command /{command.name} already; this one is left out")
        else:
            self.commands[command.name] = command

    def add_disposer(self, extension: Extension, disposer: Disposer) -> None:
        """Have something released when the runner is let go of."""
        _check_active(extension)
        _check_callable("a disposer", disposer)
        self._disposers.append((extension, disposer))

    def withdraw(self, extension: Extension) -> list[tuple[Extension, Disposer]]:
        """Take back all that an extension registered; its disposers are for the caller to run."""
        extension.active = False
        for hook, handlers in self._handlers.items():
            self._handlers[hook] = [h for h in handlers if h.extension is not extension]
        for registered in (self.tools, self.commands):
            for name in [name for name, one in registered.items() if one.extension is extension]:
                del registered[name]
        own = [pair for pair in self._disposers if pair[0] is extension]
        self._disposers = [pair for pair in self._disposers if pair[0] is not extension]
        return own

    def take_disposers(self) -> list[tuple[Extension, Disposer]]:
        """All disposers, the last registered one first; they are gone from here."""
        found, self._disposers = self._disposers[::-1], []
        return found

    def _leave_out(self, extension: Extension, message: str) -> None:
        self.diagnostics.append(Diagnostic(extension.slug, message))


def _check_active(extension: Extension) -> None:
    if not extension.active:
        raise RegistrationRefused(f"the extension {extension.slug} is not active any more")


def _check_callable(what: str, function: object) -> None:
    if not callable(function):
        raise RegistrationRefused(f"{what} is a {type(function).__name__}, no function")
