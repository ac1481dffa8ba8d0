"""The extensions of an office's runners: one set for each session, loaded with its first run."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from mikan_agent.extensions.exceptions import CapabilityUnavailable
from mikan_agent.extensions.loader import LoadedExtensions, load_extensions
from mikan_agent.extensions.packages import Located
from mikan_agent.extensions.ports import ConversationHost, ExtensionContext, ExtensionHost, ScheduleHost
from mikan_agent.subagents.request import SubagentRequest, SubagentResult
from mikan_agent.tools.tool import Delegate
from mikan_api import names
from mikan_api.layout import Office, Workspace
from mikan_api.settings import Llm


@dataclass(frozen=True, slots=True)
class Places:
    """Where this process finds what extensions need, below each the packages' own."""

    shared_data: Path = Path(names.PACKAGES, "data")
    secrets: Path = Path(names.EXTENSION_SECRETS)


class OfficeExtensions:
    """Makes the extensions of each runner. Nothing is looked for before a run needs it."""

    def __init__(
        self,
        find: Callable[[], Located],
        office: Office,
        workspace: Workspace,
        builtin_tools: Iterable[str],
        *,
        places: Places | None = None,
        conversation: ConversationHost | None = None,
        schedules: ScheduleHost | None = None,
    ) -> None:
        """``find``: blocking; finds the packages that are there."""
        places = places or Places()
        self._office, self._workspace, self._find = office, workspace, find
        self._host = ExtensionHost(
            context=lambda: self._context(Llm()),
            data=Path(office.extension_data),
            shared_data=places.shared_data,
            secrets=places.secrets,
            builtin_tools=frozenset(builtin_tools),
            conversation=conversation,
            schedules=schedules,
        )

    def runner(self) -> "RunnerExtensions":
        """Those of one more runner."""
        return RunnerExtensions(self._find, self._host, self._context)

    def _context(self, llm: Llm) -> ExtensionContext:
        return ExtensionContext(
            platform=self._office.address.platform.value,
            conversation_id=self._office.address.conversation_id,
            office_key=self._office.key,
            workspace_dir=self._workspace.root,
            office_dir=self._office.directory,
            model=llm.model,
            thinking_level=llm.thinking_level,
        )


class RunnerExtensions:
    """The extensions of one session's runner. Its runs are serial, which the caller sees to."""

    def __init__(
        self, find: Callable[[], Located], host: ExtensionHost, context: Callable[[Llm], ExtensionContext]
    ) -> None:
        self._find, self._subagents, self._llm = find, _RunSubagents(), Llm()
        self._host = replace(host, subagents=self._subagents, context=lambda: context(self._llm))
        self._loaded: LoadedExtensions | None = None

    async def begin(self, llm: Llm, delegate: Delegate) -> LoadedExtensions:
        """Those of a run that begins; loaded where it is the first. What can't be loaded is in the log.

        Args:
            llm: the run's model.
            delegate: starts the run's subagents.
        """
        self._llm, self._subagents.delegate = llm, delegate
        if self._loaded is None:
            located = await asyncio.to_thread(self._find)
            self._loaded = await load_extensions(located, self._host)
        return self._loaded

    def end(self) -> None:
        """The run is over."""
        self._subagents.delegate = None

    async def close(self) -> None:
        """Dispose of them."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            await loaded.dispose()


class _RunSubagents:
    """Subagents, while a run is there that pays for them."""

    def __init__(self) -> None:
        self.delegate: Delegate | None = None

    async def run(self, request: SubagentRequest) -> SubagentResult:
        """See `SubagentHost`."""
        if self.delegate is None:
            raise CapabilityUnavailable("no run is under way that a subagent could belong to")
        return await self.delegate(request, None)
