"""The command manifest: the one inventory that platforms register from and the runtime dispatches by.

``stop`` is not in it: that is a magic word of the intake (see `is_magic_stop`), which needs no registration to work.
"""

from dataclasses import dataclass
from enum import StrEnum


class Place(StrEnum):
    """Where a command may be used."""

    ANYWHERE = "anywhere"
    DIRECT = "direct"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Command:
    """One built-in command."""

    name: str
    summary: str
    place: Place
    arguments: str = ""
    admin_only: bool = False
    bare: bool = False
    """Whether the word without a slash counts as the command."""

    @property
    def slash_forms(self) -> tuple[str, str]:
        """Both spellings; the second is free of clashes with a platform's own commands."""
        return f"/{self.name}", f"/pi-{self.name}"


COMMAND_MANIFEST = (
    Command("login", "Store keys or sign in to a service for this office", Place.DIRECT, "[shared …|copy <name>]"),
    Command("session", "Link to this conversation's session", Place.DIRECT, bare=True),
    Command("new", "Start a fresh session; old ones are kept", Place.ANYWHERE),
    Command("model", "Show or switch the model", Place.ANYWHERE, "[provider/model[:thinking]]"),
    Command("sandbox", "Show limits and door policy, or change them", Place.ANYWHERE, "[boost|door <policy>]"),
    Command("auto-reply", "Answer here without being mentioned", Place.SHARED, "<on|off|status>"),
    Command("admin", "Link to the admin portal", Place.DIRECT, admin_only=True),
)


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command as it was written."""

    command: Command
    arguments: str


def parse_command(text: str) -> Invocation | None:
    """The built-in command that ``text`` (mentions removed) invokes, or ``None``: then the text is for the model."""
    word, _, rest = text.strip().partition(" ")
    lowered = word.lower()
    for command in COMMAND_MANIFEST:
        if lowered in command.slash_forms or (command.bare and lowered == command.name and not rest.strip()):
            return Invocation(command, rest.strip())
    return None


def is_magic_stop(text: str) -> bool:
    """Whether ``text`` (mentions removed) is the magic word: ``stop`` or ``/stop``, any case, nothing else."""
    return text.strip().lower() in {"stop", "/stop"}
