"""All that the manifests of one office are built from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from mikan_api import names
from mikan_api.effective import EffectiveOffice
from mikan_api.identity import OfficeAddress, OfficeKey
from mikan_api.layout import Workspace
from mikan_api.packages import Package
from mikan_operator.installation import Installation
from mikan_operator.storage.kinds import OFFICE, Manifest
from mikan_operator.vault_mounts import Mounts

UID = 10001
"""User, group and fsGroup of every pod of an office: files that one makes the other may read and write."""


@dataclass(frozen=True, slots=True)
class MountedVault:
    """The Secret that an office's commands get."""

    secret_name: str
    secret_version: str
    mounts: Mounts


@dataclass(frozen=True, slots=True)
class OfficePlan:
    """An office with everything decided."""

    address: OfficeAddress
    uid: str
    effective: EffectiveOffice
    vault: MountedVault | None
    runtime_class: str
    """Empty for the cluster's default."""
    installation: Installation

    @property
    def key(self) -> OfficeKey:
        """The office key."""
        return self.address.key

    @property
    def has_sandbox(self) -> bool:
        """Whether the office has a sandbox pod of its own."""
        return self.effective.sandbox_mode.per_office

    @property
    def packages(self) -> tuple[Package, ...]:
        """The packages that it loads. What can't be loaded is for the agent to tell."""
        return self.effective.packages.resolve().active

    @property
    def paths(self) -> "OfficePaths":
        """Where its directories are."""
        return OfficePaths(self.address)


class OfficePaths:
    """Paths in pods, as strings for manifests."""

    def __init__(self, address: OfficeAddress) -> None:
        office = Workspace().office(address)
        self.directory = str(office.directory)
        self.records = str(office.records)
        self.history = str(office.history)


def metadata(plan: OfficePlan, name: str, component: str = "") -> Manifest:
    """Name, labels and the owner reference that lets garbage collection remove the object with its Office."""
    labels = {names.LABEL_MANAGED_BY: names.OPERATOR, names.LABEL_OFFICE: plan.key}
    if component:
        labels[names.LABEL_COMPONENT] = component
    owner = {
        "apiVersion": OFFICE.api_version,
        "kind": OFFICE.kind,
        "name": plan.key,
        "uid": plan.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"name": name, "labels": labels, "ownerReferences": [owner]}


def digest(value: object) -> str:
    """A short fingerprint of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def environment(values: Mapping[str, str]) -> list[Manifest]:
    """Container variables in a fixed order, taken as they are: the kubelet reads ``$$`` as ``$`` and ``$(X)`` as X."""
    return [{"name": name, "value": value.replace("$", "$$")} for name, value in sorted(values.items())]
