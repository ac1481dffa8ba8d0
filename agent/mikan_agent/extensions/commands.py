"""Commands that extensions bring: ``/name``, answered by their code alone, with no model and no session entry."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from mikan_agent.exceptions import ToolError
from mikan_agent.extensions.exceptions import TookTooLong, WrongResult
from mikan_agent.extensions.extension import Extension
from mikan_agent.harness.hooks import Origin
from mikan_api.commands import COMMAND_MANIFEST

Respond: TypeAlias = Callable[[str], Awaitable[None]]

NAME = r"[a-z0-9][a-z0-9_-]{0,31}"
BUILTIN = frozenset({"stop"} | {form.removeprefix("/") for command in COMMAND_MANIFEST for form in command.slash_forms})
"""Names that no extension can have."""


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A command as somebody wrote it."""

    arguments: str
    """What stands after the name."""
    origin: Origin
    """Who wrote it, and where."""
    respond: Respond
    """Posts an answer; what the handler returns is posted too."""


CommandFunction: TypeAlias = Callable[[CommandCall], Awaitable[str | None] | str | None]


@dataclass(frozen=True, slots=True)
class ExtensionCommand:
    """A registered command."""

    extension: Extension
    name: str
    description: str
    function: CommandFunction
    usage: str = ""
    """What may stand after the name, for people."""


class ExtensionCommands:
    """All commands of a runner's extensions. Built-in ones are looked for before these are asked."""

    def __init__(self, commands: dict[str, ExtensionCommand]) -> None:
        self._commands = commands

    @property
    def all(self) -> tuple[ExtensionCommand, ...]:
        """In the order of their registration."""
        return tuple(self._commands.values())

    def find(self, text: str) -> tuple[ExtensionCommand, str] | None:
        """The command that a text invokes, with what stands after its name."""
        word, _, rest = text.strip().partition(" ")
        name, line_break, below = word.partition("\n")
        if not name.startswith("/"):
            return None
        command = self._commands.get(name[1:].lower())
        return None if command is None else (command, f"{below}{' ' if line_break and rest else ''}{rest}".strip())

    async def dispatch(self, text: str, origin: Origin, respond: Respond) -> bool:
        """Carry out the command that a text invokes. False: it invokes none, and is for the model.

        An error in it is told by ``respond`` and logged; only what ``respond`` itself raises passes through.
        """
        found = self.find(text)
        if found is None:
            return False
        command, arguments = found
        answer = await _answer(command, CommandCall(arguments, origin, respond))
        if answer:
            await respond(answer)
        return True


async def _answer(command: ExtensionCommand, call: CommandCall) -> str | None:
    extension = command.extension
    try:
        answer = await extension.call(command.function, call, seconds=extension.limits.command)
        if answer is not None and not isinstance(answer, str):
            raise WrongResult(f"a command returns a str or None, not {type(answer).__name__}")
    except ToolError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  an extension breaks nothing else
        extension.log.failed(f"command /{command.name}", error)
        if isinstance(error, TookTooLong):
            return f"/{command.name} was given up: the extension {extension.slug} {error}."
        return (
            f"/{command.name} failed: the extension {extension.slug} has an error. Its details are in the agent's log."
        )
    return answer
