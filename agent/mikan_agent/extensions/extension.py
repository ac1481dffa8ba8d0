"""One extension in one runner: who it is, how its code is called, and what it registered."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mikan_agent.extensions.calls import Caller, Limits
from mikan_agent.extensions.log import ExtensionLog
from mikan_agent.extensions.secrets import Secrets


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something about packages or extensions that an admin should know. Never holds a secret."""

    subject: str
    """Slug of an extension, or source of a package."""
    message: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}"


@dataclass(slots=True)
class Extension:
    """Identity and state. Code of the extension's runs through `call` only."""

    slug: str
    package: str
    """Slug of its package, which its Secret and its shared data go by."""
    secrets: Secrets
    limits: Limits
    caller: Caller = field(init=False)
    log: ExtensionLog = field(init=False)
    active: bool = True
    """Whether it may still register anything."""

    def __post_init__(self) -> None:
        self.caller = Caller(self.slug)
        self.log = ExtensionLog(self.slug, self.secrets)

    @classmethod
    def of(cls, slug: str, package: str, secrets: Path, limits: Limits) -> "Extension":
        """An extension whose package's Secret is below ``secrets``."""
        return cls(slug, package, Secrets(secrets / package), limits)

    async def call(self, function: Callable[..., Any], *arguments: Any, seconds: float | None) -> Any:
        """Call a function of its; see `Caller.call`."""
        return await self.caller.call(function, *arguments, seconds=seconds)
