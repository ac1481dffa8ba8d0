"""MEMORY.md files for the prompt: confined, bounded, and never a reason for a run to fail."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import PurePosixPath

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.harness.prompt import Memory
from mikan_agent.records.exceptions import NotFound, StorageError
from mikan_api.layout import Office, Workspace
from mikan_api.settings import DoorPolicy, Layout

logger = logging.getLogger(__name__)

LIMIT = 16 * 1024
"""Bytes of one file that the prompt has room for."""
FILE = "MEMORY.md"


class OfficeMemories:
    """The office's own notes and, where the door policy shares it, the workspace's."""

    def __init__(self, office: Office, workspace: Workspace) -> None:
        self._office, self._workspace = office, workspace

    async def read(self, policy: DoorPolicy) -> Sequence[Memory]:
        """What there is, the workspace's first."""
        places: list[tuple[PurePosixPath, PurePosixPath]] = []
        if policy.layout is not Layout.CONVERSATION:
            places.append((self._workspace.shared / "support", self._workspace.root / FILE))
        places.append((self._office.directory, self._office.memory))
        found = [await asyncio.to_thread(_read, directory, shown) for directory, shown in places]
        return [memory for memory in found if memory is not None]


def _read(directory: PurePosixPath, shown: PurePosixPath) -> Memory | None:
    try:
        with ConfinedDirectory(directory).open(FILE) as file:
            content = file.read(LIMIT + 1)
    except NotFound:
        return None
    except StorageError as error:
        logger.warning("a MEMORY.md cannot be read", extra={"path": str(shown), "reason": str(error)})
        return None
    text = content[:LIMIT].decode(errors="replace")
    if len(content) > LIMIT:
        text += f"\n[Cut here: {FILE} is longer than {LIMIT} bytes. Shorten it.]"
    return Memory(shown, text)
