"""What a Vault's Secret becomes in a sandbox: which keys are variables, which are files, and where those land.

Pure, over names alone: no value of a Secret ever gets here (behaviour "Vault").
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from mikan_api.resources import Reason, VaultFile, VaultSpec

DEFAULT_MODE = "0600"
DEFAULT_PATHS = {
    "gws.json": ".config/gws/credentials.json",
    "gcloud-adc.json": ".config/gcloud/application_default_credentials.json",
}
"""Where files land by name; everything else lands at ``~/<key>``."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFUSED_VARIABLES = ("LD_", "MIKAN_")


@dataclass(frozen=True, slots=True)
class FileMount:
    """A key that becomes a file; ``path`` is relative to the home directory."""

    key: str
    path: str
    mode: str


@dataclass(frozen=True, slots=True)
class Mounts:
    """A whole vault, as names."""

    variables: tuple[str, ...]
    files: tuple[FileMount, ...]
    every_variable: bool
    """Keys that are added later become variables without a new pod."""


@dataclass(frozen=True, slots=True)
class MountFault:
    """Why a vault cannot be mounted whole, hence not at all."""

    reason: Reason
    message: str


def plan_mounts(spec: VaultSpec, keys: frozenset[str]) -> Mounts | MountFault:
    """Decide what each key of a Secret becomes.

    Keys in ``spec.files`` are files; so are keys that cannot be variable names. Where ``spec.env`` is absent every
    other key is a variable. A name that the spec asks for and the Secret lacks, an unsafe name or path, and two files
    at one place are faults.
    """
    explicit = {file.key: file for file in spec.files}
    asked = {*explicit, *(spec.env or ())}
    if missing := sorted(asked - keys):
        return MountFault(Reason.KEY_MISSING, f"the Secret has no key {', '.join(missing)}")
    for name in spec.env or ():
        if name.startswith(_REFUSED_VARIABLES):
            return MountFault(Reason.UNSAFE_KEY, f"{name} can't be a variable: names with LD_ or MIKAN_ are refused")
    possible = {key for key in keys if _VARIABLE.fullmatch(key) and not key.startswith(_REFUSED_VARIABLES)}
    variables = set(spec.env) if spec.env is not None else possible - set(explicit)
    by_name = {key for key in keys if not _VARIABLE.fullmatch(key)} - set(explicit)
    files = [*spec.files, *(VaultFile(key=key) for key in sorted(by_name))]
    mounts = tuple(_file_mount(file) for file in files)
    fault = _path_fault(mounts)
    if fault:
        return fault
    every = spec.env is None and variables == possible
    return Mounts(tuple(sorted(variables)), mounts, every)


def _file_mount(file: VaultFile) -> FileMount:
    path = (file.path or DEFAULT_PATHS.get(file.key, file.key)).removeprefix("~/")
    return FileMount(file.key, path, file.mode)


def _path_fault(mounts: tuple[FileMount, ...]) -> MountFault | None:
    taken: dict[PurePosixPath, str] = {}
    for mount in mounts:
        parts = mount.path.split("/")
        if any(part in {"", ".", ".."} for part in parts):
            return MountFault(Reason.UNSAFE_KEY, f"key {mount.key}: path {mount.path} leaves the home directory")
        path = PurePosixPath(mount.path)
        if path in taken:
            return MountFault(Reason.MOUNT_COLLISION, f"keys {taken[path]} and {mount.key} both land at ~/{path}")
        taken[path] = mount.key
    for path, key in taken.items():
        for parent in path.parents:
            if parent in taken:
                text = f"key {taken[parent]} lands at ~/{parent}, which key {key} needs as a directory"
                return MountFault(Reason.MOUNT_COLLISION, text)
    return None
