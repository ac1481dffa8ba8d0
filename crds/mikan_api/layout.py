"""The tree that pods see at ``/workspace`` and where it lives on the volumes (architecture section 6).

Pure values: nothing here touches a disk. An Office object must exist before its directory does, so only an office's own
pod may create what these paths name.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from mikan_api import names
from mikan_api.identity import OfficeAddress, OfficeKey, office_key

RESERVED_WORKSPACE_NAMES = ("MEMORY.md", "skills", "events", "agents")
"""Names at the workspace root that are never an office's; links into the shared volume."""


@dataclass(frozen=True, slots=True)
class Office:
    """Every path of one office, precomputed. ``records`` is host-only; ``history`` is its sandbox-visible part."""

    address: OfficeAddress
    key: OfficeKey
    directory: PurePosixPath
    memory: PurePosixPath
    attachments: PurePosixPath
    scratch: PurePosixPath
    skills: PurePosixPath
    records: PurePosixPath
    history: PurePosixPath
    log: PurePosixPath
    sessions: PurePosixPath
    extension_data: PurePosixPath

    @property
    def links(self) -> dict[PurePosixPath, PurePosixPath]:
        """Link -> target: where the original layout expects what lives under ``records``."""
        return {self.directory / "log.jsonl": self.log, self.directory / "sessions": self.sessions}


@dataclass(frozen=True, slots=True)
class Workspace:
    """The surfaces of a whole installation, and the factory of its offices."""

    root: PurePosixPath = PurePosixPath(names.WORKSPACE)
    records: PurePosixPath = PurePosixPath(names.RECORDS)
    shared: PurePosixPath = PurePosixPath(names.SHARED)

    def office(self, address: OfficeAddress) -> Office:
        """The office of an address; the same frozen value every time."""
        return _office(self, address)

    @property
    def links(self) -> dict[PurePosixPath, PurePosixPath]:
        """Link -> target: the reserved names, where a pod may see the shared volume."""
        support = {name: self.shared / "support" / name for name in RESERVED_WORKSPACE_NAMES if name != "agents"}
        return {self.root / n: t for n, t in (support | {"agents": self.shared / "agents"}).items()}


@lru_cache(maxsize=65_536)
def _office(workspace: Workspace, address: OfficeAddress) -> Office:
    key = office_key(address)
    directory = workspace.root / key
    records = workspace.records / key
    history = records / "history"
    return Office(
        address=address,
        key=key,
        directory=directory,
        memory=directory / "MEMORY.md",
        attachments=directory / "attachments",
        scratch=directory / "scratch",
        skills=directory / "skills",
        records=records,
        history=history,
        log=history / "log.jsonl",
        sessions=history / "sessions",
        extension_data=records / "extensions",
    )


def office_subpath(key: OfficeKey) -> str:
    """Directory of an office inside the volume ``mikan-offices``."""
    return f"offices/{key}"


def records_subpath(key: OfficeKey) -> str:
    """Directory of an office's records inside the volume ``mikan-offices``."""
    return f"records/{key}"


def history_subpath(key: OfficeKey) -> str:
    """The part of the records that a sandbox may read: sessions and log, never extension data."""
    return f"{records_subpath(key)}/history"
