"""Session files as the runtime needs them: opened with a runner, looked for, begun afresh."""

import asyncio
from typing import TYPE_CHECKING

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.harness.runner import Services, SessionRunner
from mikan_agent.sessions.store import SessionStore
from mikan_api.session_keys import SessionKey, thread_file_name, thread_suffix_of

if TYPE_CHECKING:
    from mikan_agent.extensions.office import OfficeExtensions


class SessionRunners:
    """Runners over the sessions of one office."""

    def __init__(
        self,
        store: SessionStore,
        directory: ConfinedDirectory,
        services: Services,
        extensions: "OfficeExtensions | None" = None,
    ) -> None:
        self._store, self._directory, self._services, self._extensions = store, directory, services, extensions

    async def open(self, key: SessionKey) -> SessionRunner:
        """The runner of a session key."""
        extensions = self._extensions.runner() if self._extensions else None
        return SessionRunner(key, await self._store.open(key), self._services, extensions)

    async def exists(self, key: SessionKey) -> bool:
        """Whether a thread's session has a file already; a top-level one is as good as there."""
        suffix = thread_suffix_of(key)
        return suffix is None or await asyncio.to_thread(self._directory.exists, thread_file_name(suffix))

    async def reset(self, key: SessionKey, log_number: int) -> str:
        """Begin afresh after this entry of the log (0: after what is on disk); returns the new file's name."""
        return await self._store.reset(key, log_number or self._services.log.last_number)
