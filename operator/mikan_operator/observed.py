"""What the operator keeps of the objects it watches: values, cut down to what decisions need.

Of a Secret only the names of its keys are kept. Unknown or broken content becomes a stated fault, never an exception:
one bad object must not stop the others.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from mikan_api import names
from mikan_api.events import describe
from mikan_api.resources import (
    OfficeSpec,
    OfficeStatus,
    ScheduledEventSpec,
    ScheduledEventStatus,
    VaultSpec,
    VaultStatus,
)
from mikan_api.tokens import parse_epoch
from mikan_operator.storage.kinds import Manifest


@dataclass(frozen=True, slots=True)
class Meta:
    """Identity and age of an object."""

    name: str
    uid: str
    version: str
    generation: int
    created: datetime
    deleting: bool
    owner_uid: str
    """UID of the controlling owner; empty if there is none."""

    @classmethod
    def of(cls, manifest: Manifest) -> "Meta":
        """From an object's metadata."""
        meta = manifest["metadata"]
        owners = [o for o in meta.get("ownerReferences") or () if o.get("controller")]
        return cls(
            name=meta["name"],
            uid=meta.get("uid", ""),
            version=meta.get("resourceVersion", ""),
            generation=meta.get("generation", 0),
            created=_instant(meta.get("creationTimestamp")),
            deleting=bool(meta.get("deletionTimestamp")),
            owner_uid=owners[0].get("uid", "") if owners else "",
        )

    def is_older_than(self, other: "Meta") -> bool:
        """Whether this is an earlier state of the same object (resourceVersions are ordered within a resource)."""
        if self.uid != other.uid or not (self.version.isdecimal() and other.version.isdecimal()):
            return False
        return int(self.version) < int(other.version)


def _instant(value: str | None) -> datetime:
    return datetime.fromisoformat(value) if value else datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class OfficeObject:
    """An Office. ``spec`` is ``None`` where ``fault`` says why it can't be read."""

    meta: Meta
    spec: OfficeSpec | None
    fault: str
    status: OfficeStatus
    epoch: int
    """Token epoch; raised by an admin to make older tokens invalid."""
    finalized: bool
    """Whether our finalizer is on it."""

    @classmethod
    def of(cls, manifest: Manifest) -> "OfficeObject":
        """From the API's JSON."""
        spec, fault = _parsed(OfficeSpec, manifest.get("spec"))
        status, _ = _parsed(OfficeStatus, manifest.get("status"))
        epoch = _annotations(manifest).get(names.ANNOTATION_TOKEN_EPOCH, "0")
        return cls(
            meta=Meta.of(manifest),
            spec=spec,
            fault=fault,
            status=status or OfficeStatus(),
            epoch=parse_epoch(epoch),
            finalized=names.FINALIZER in (manifest["metadata"].get("finalizers") or ()),
        )


@dataclass(frozen=True, slots=True)
class VaultObject:
    """A Vault. ``spec`` is ``None`` where ``fault`` says why it can't be read."""

    meta: Meta
    spec: VaultSpec | None
    fault: str
    status: VaultStatus

    @classmethod
    def of(cls, manifest: Manifest) -> "VaultObject":
        """From the API's JSON."""
        spec, fault = _parsed(VaultSpec, manifest.get("spec"))
        status, _ = _parsed(VaultStatus, manifest.get("status"))
        return cls(Meta.of(manifest), spec, fault, status or VaultStatus())

    @property
    def secret_name(self) -> str:
        """The Secret that holds the values."""
        return (self.spec and self.spec.secret_name) or self.meta.name


@dataclass(frozen=True, slots=True)
class ScheduledEventObject:
    """A ScheduledEvent. ``spec`` is ``None`` where ``fault`` says why it can't be read."""

    meta: Meta
    spec: ScheduledEventSpec | None
    fault: str
    status: ScheduledEventStatus

    @classmethod
    def of(cls, manifest: Manifest) -> "ScheduledEventObject":
        """From the API's JSON."""
        spec, fault = _parsed(ScheduledEventSpec, manifest.get("spec"))
        status, _ = _parsed(ScheduledEventStatus, manifest.get("status"))
        return cls(Meta.of(manifest), spec, fault, status or ScheduledEventStatus())


@dataclass(frozen=True, slots=True)
class SecretObject:
    """A Secret: names of its keys, never a value."""

    meta: Meta
    labelled: bool
    keys: frozenset[str]

    @classmethod
    def of(cls, manifest: Manifest) -> "SecretObject":
        """From the API's JSON."""
        labels = manifest["metadata"].get("labels") or {}
        return cls(Meta.of(manifest), labels.get(names.LABEL_VAULT) == "true", frozenset(manifest.get("data") or ()))


@dataclass(frozen=True, slots=True)
class Fault:
    """What a pod complains of."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodObject:
    """A pod of an office."""

    meta: Meta
    office: str
    component: str
    baked: str
    vault_version: str
    token_version: str
    phase: str
    ready: bool
    unschedulable: str
    """The scheduler's message while it finds no place."""
    waiting: Fault | None
    """A container that can't start, or ends again and again."""
    ended: Fault | None
    """Why the whole pod has ended."""

    @property
    def finished(self) -> bool:
        """Whether it will never run again."""
        return self.phase in {"Failed", "Succeeded"}

    @classmethod
    def of(cls, manifest: Manifest) -> "PodObject":
        """From the API's JSON."""
        status = manifest.get("status") or {}
        labels = manifest["metadata"].get("labels") or {}
        annotations = _annotations(manifest)
        conditions = {c["type"]: c for c in status.get("conditions") or ()}
        scheduled = conditions.get("PodScheduled", {})
        return cls(
            meta=Meta.of(manifest),
            office=labels.get(names.LABEL_OFFICE, ""),
            component=labels.get(names.LABEL_COMPONENT, ""),
            baked=annotations.get(names.ANNOTATION_BAKED, ""),
            vault_version=annotations.get(names.ANNOTATION_VAULT_VERSION, ""),
            token_version=annotations.get(ANNOTATION_TOKEN_VERSION, ""),
            phase=status.get("phase", "Pending"),
            ready=conditions.get("Ready", {}).get("status") == "True",
            unschedulable=scheduled.get("message", "no node fits") if scheduled.get("status") == "False" else "",
            waiting=_waiting(status),
            ended=_ended(status),
        )


ANNOTATION_TOKEN_VERSION = f"{names.GROUP}/token-version"
"""On an agent pod: a digest of its tokens; touching it makes the kubelet refresh the mount."""

_NORMAL_WAITS = {"ContainerCreating", "PodInitializing"}
IMAGE_WAITS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)


def _waiting(status: dict[str, Any]) -> Fault | None:
    """The first container that can't start, in words that stay the same from one attempt to the next."""
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if not reason or reason in _NORMAL_WAITS:
            continue
        last = (container.get("lastState") or {}).get("terminated")
        if reason in IMAGE_WAITS:
            text = f"image {container.get('image', '')} can't be had"
        elif last:
            text = f"it ends again and again, last with {last.get('reason', 'Error')}, code {last.get('exitCode')}"
        else:
            text = waiting.get("message", "")
        return Fault(reason, f"container {container['name']}: {text}")
    return None


def _ended(status: dict[str, Any]) -> Fault | None:
    if status.get("phase") not in {"Failed", "Succeeded"}:
        return None
    parts = [status.get("message", "")]
    for container in status.get("containerStatuses") or ():
        terminated = (container.get("state") or {}).get("terminated")
        if terminated:
            parts.append(
                f"container {container['name']}: {terminated.get('reason', '')}, code {terminated['exitCode']}"
            )
    return Fault(status.get("reason") or status["phase"], "; ".join(part for part in parts if part))


def _annotations(manifest: Manifest) -> dict[str, str]:
    return manifest["metadata"].get("annotations") or {}


def _parsed(model: type[Any], value: object) -> tuple[Any, str]:
    try:
        return model.model_validate(value or {}), ""
    except ValidationError as error:
        return None, describe(error)
