"""An office's directory tree: made by its own pod, never by the gateway (architecture sections 4 and 6).

A sandbox may have left anything in the office directory: what stands in the way is moved aside, and never followed or
deleted. Blocks; coroutines call it through `asyncio.to_thread`.
"""

import logging
import os
import secrets
from pathlib import PurePosixPath

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.records.exceptions import NotFound, Refused
from mikan_api.kill_points import Step, around
from mikan_api.layout import Office

logger = logging.getLogger(__name__)


def materialize(office: Office) -> None:
    """Make an office's directories, its records, and the links between them; what is right already stays as it is.

    Raises:
        Refused: something in the records, which no sandbox can write to, is no directory.
        StorageFailed: disk full, permission, I/O.
    """
    with around(Step.DIRECTORIES_MAKE):
        _materialize(office)


def _materialize(office: Office) -> None:
    os.makedirs(office.records, exist_ok=True)
    os.makedirs(office.directory, exist_ok=True)
    records = ConfinedDirectory(office.records)
    for path in (office.sessions, office.extension_data):
        records.mkdir(str(path.relative_to(office.records)))
    directory = ConfinedDirectory(office.directory)
    for path in (office.attachments, office.scratch, office.skills):
        _ensure_directory(directory, path.name)
    for link, target in office.links.items():
        _ensure_link(directory, link.name, target, office.records)


def _ensure_directory(directory: ConfinedDirectory, name: str) -> None:
    try:
        directory.mkdir(name)
    except Refused:
        _move_aside(directory, name)
        directory.mkdir(name)


def _ensure_link(directory: ConfinedDirectory, name: str, target: PurePosixPath, records: PurePosixPath) -> None:
    found = _link_target(directory, name)
    if found == str(target):
        return
    if found is not None and PurePosixPath(found).is_relative_to(records) and ".." not in found:
        directory.remove(name)  # ours, from an earlier layout
    elif directory.exists(name):
        _move_aside(directory, name)
    directory.link(name, target)


def _link_target(directory: ConfinedDirectory, name: str) -> str | None:
    """Where a link points; ``None``: no link is there."""
    try:
        return directory.read_link(name)
    except (NotFound, Refused):
        return None


def _move_aside(directory: ConfinedDirectory, name: str) -> None:
    aside = f"{name}.aside-{secrets.token_hex(4)}"
    directory.rename(name, aside)
    logger.warning("moved aside what stood in the way", extra={"path": name, "moved_to": aside})
