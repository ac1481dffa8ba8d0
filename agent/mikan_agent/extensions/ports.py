"""What a host can do for extensions. Each is optional: a missing one makes the call that needs it fail, and says so.

An agent speaks for one office, so none of these reaches another conversation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from mikan_agent.extensions.calls import Limits
from mikan_agent.subagents.request import SubagentRequest, SubagentResult
from mikan_api.events import ImmediateEvent, OneShotEvent, PeriodicEvent
from mikan_api.identity import OfficeKey
from mikan_api.settings import ThinkingLevel


class ConversationHost(Protocol):
    """The conversation, outside of any run's answer.

    All raise `mikan_agent.exceptions.AgentError` where the gateway or the platform refuses.
    """

    async def notify(self, text: str) -> None:
        """Post a message (GitHub Flavored Markdown), with no run."""

    async def react(self, message_id: str, emoji: str) -> None:
        """Put a reaction on a message of the conversation."""

    async def upload(self, file: Path, title: str) -> None:
        """Send a file of this process's."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A run that is set up."""

    name: str
    event: OneShotEvent | PeriodicEvent


class ScheduleHost(Protocol):
    """Runs of this conversation by the clock. ``owner`` is the extension's slug; it sees and changes its own only."""

    async def upsert(self, owner: str, name: str, event: OneShotEvent | PeriodicEvent) -> None:
        """Set up a run, or replace the one of this name."""

    async def remove(self, owner: str, name: str) -> bool:
        """Take it away. False: there was none."""

    async def list(self, owner: str) -> Sequence[Schedule]:
        """All of the owner's."""

    async def trigger(self, owner: str, event: ImmediateEvent) -> None:
        """Have a run begin as soon as it can."""


class SubagentHost(Protocol):
    """Runs subagents, for the run under way and at its expense."""

    async def run(self, request: SubagentRequest) -> SubagentResult:
        """Run one to its end. A failure is a status of the result.

        Raises:
            CapabilityUnavailable: no run is under way.
        """


@dataclass(frozen=True, slots=True)
class ExtensionContext:
    """Where an extension runs."""

    platform: str
    conversation_id: str
    office_key: OfficeKey
    workspace_dir: PurePosixPath
    """The workspace's root, as commands see it."""
    office_dir: PurePosixPath
    """This conversation's directory in it."""
    model: str
    """``provider/model`` of the present or the last run."""
    thinking_level: ThinkingLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionHost:
    """All that a runner gives to its extensions."""

    context: Callable[[], ExtensionContext]
    data: Path
    """Directory of the office's records that extensions have for themselves; no sandbox sees it."""
    shared_data: Path
    """Directory below which each package has one that all conversations share."""
    secrets: Path
    """Directory below which each package's Secret is mounted."""
    builtin_tools: frozenset[str] = frozenset()
    conversation: ConversationHost | None = None
    schedules: ScheduleHost | None = None
    subagents: SubagentHost | None = None
    limits: Limits = Limits()
