"""A runner's extensions as tests write them: real files, the real loader, and a host that notes what it is asked."""

import asyncio
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from mikan_agent.extensions.calls import Limits
from mikan_agent.extensions.loader import LoadedExtensions, load_extensions
from mikan_agent.extensions.packages import Located, at
from mikan_agent.extensions.ports import (
    ExtensionContext,
    ExtensionHost,
    Schedule,
)
from mikan_agent.harness.hooks import Origin
from mikan_agent.subagents.request import SubagentRequest, SubagentResult, SubagentStatus
from mikan_api.events import ImmediateEvent, OneShotEvent, PeriodicEvent
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.settings import ThinkingLevel

ADDRESS = OfficeAddress(Platform.CONSOLE, "room")
ORIGIN = Origin("interactive", "console", message_id="m1", user_id="U1", user_name="ada")
SHORT = Limits(activate=5.0, hook=0.05, command=0.05, dispose=0.05)
"""Limits for tests of what takes too long; a busy machine starts a thread in less than the first."""
NOTES = "notes"
"""A file in the data directory that extensions of tests write to."""


@dataclass
class HostNotes:
    """Implements every port of a host."""

    said: list[str] = field(default_factory=list)
    reactions: list[tuple[str, str]] = field(default_factory=list)
    uploads: list[tuple[str, bytes]] = field(default_factory=list)
    schedules: dict[tuple[str, str], OneShotEvent | PeriodicEvent] = field(default_factory=dict)
    triggered: list[tuple[str, str]] = field(default_factory=list)
    tasks: list[SubagentRequest] = field(default_factory=list)

    async def notify(self, text: str) -> None:
        self.said.append(text)

    async def react(self, message_id: str, emoji: str) -> None:
        self.reactions.append((message_id, emoji))

    async def upload(self, file: Path, title: str) -> None:
        self.uploads.append((title, await asyncio.to_thread(file.read_bytes)))

    async def upsert(self, owner: str, name: str, event: OneShotEvent | PeriodicEvent) -> None:
        self.schedules[owner, name] = event

    async def remove(self, owner: str, name: str) -> bool:
        return self.schedules.pop((owner, name), None) is not None

    async def list(self, owner: str) -> Sequence[Schedule]:
        return [Schedule(name, event) for (who, name), event in self.schedules.items() if who == owner]

    async def trigger(self, owner: str, event: ImmediateEvent) -> None:
        self.triggered.append((owner, event.text))

    async def run(self, request: SubagentRequest) -> SubagentResult:
        self.tasks.append(request)
        return SubagentResult("run-1", SubagentStatus.COMPLETED, text="done")


class ExtensionWorld:
    """Packages below a directory, and the runner that loads them."""

    def __init__(self, root: Path) -> None:
        self.root, self.did = root, HostNotes()
        self.host = ExtensionHost(
            context=self._context,
            data=root / "data",
            shared_data=root / "shared",
            secrets=root / "secrets",
            builtin_tools=frozenset({"bash", "read"}),
            conversation=self.did,
            schedules=self.did,
            subagents=self.did,
            limits=Limits(activate=30.0, hook=30.0, command=30.0, dispose=30.0),
        )
        self.model = "scripted/demo"

    def _context(self) -> ExtensionContext:
        return ExtensionContext(
            platform=ADDRESS.platform.value,
            conversation_id=ADDRESS.conversation_id,
            office_key=ADDRESS.key,
            workspace_dir=PurePosixPath("/workspace"),
            office_dir=PurePosixPath("/workspace") / ADDRESS.key,
            model=self.model,
            thinking_level=ThinkingLevel.LOW,
        )

    def write(self, path: str, code: str) -> Path:
        """Write a file of a package: ``<package>/<path in it>``."""
        file = self.root / "packages" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(code))
        return file

    def secret(self, package: str, **values: str) -> None:
        """Mount a package's Secret."""
        for name, value in values.items():
            file = self.root / "secrets" / package / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(value)

    async def load(self, *packages: str, **changes: Any) -> LoadedExtensions:
        """Load packages by name, in order; ``conversation=None`` and the like change the host."""
        found = [at(self.root / "packages" / name, name)[0] for name in packages]
        return await load_extensions(Located(tuple(found)), replace(self.host, **changes))

    def notes(self, extension: str) -> list[str]:
        """Lines that an extension wrote to its notes."""
        file = self.root / "data" / extension / NOTES
        return file.read_text().splitlines() if file.exists() else []
