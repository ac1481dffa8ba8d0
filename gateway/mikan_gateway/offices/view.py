"""From an Office object, as the API server sends it, to what the processes want to know of it."""

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from mikan_api import names
from mikan_api.effective import InvalidPolicy, effective_budgets, effective_door_policy, effective_llm
from mikan_api.exceptions import InvalidAddress
from mikan_api.identity import OfficeKey
from mikan_api.resources import ConditionType, OfficeSpec, OfficeStatus, Reason
from mikan_api.settings import DoorPolicy, Settings
from mikan_api.tokens import parse_epoch
from mikan_gateway.ports import OfficeView

_SHOWN = frozenset({ConditionType.READY, ConditionType.AGENT_READY, ConditionType.SANDBOX_READY, "VaultReady"})
_FINE = frozenset({Reason.STARTING, Reason.RUNNING, Reason.IDLE, Reason.STALE, Reason.TERMINATING, Reason.NO_VAULT})
"""Reasons that need nobody's attention, whatever the condition's status is."""


class UnusableOffice(ValueError):
    """An Office object that no key of ours could have made."""


@dataclass(frozen=True, slots=True)
class OfficeRecord:
    """An Office object, read once."""

    key: OfficeKey
    uid: str
    version: str
    epoch: int
    deleting: bool
    spec: OfficeSpec
    status: OfficeStatus


def read_office(manifest: dict[str, Any]) -> OfficeRecord:
    """Read an Office object.

    Raises:
        UnusableOffice: its name is not the key of its spec, or it does not fit the model.
    """
    metadata = manifest["metadata"]
    try:
        spec = OfficeSpec.model_validate(manifest["spec"])
        status = OfficeStatus.model_validate(manifest.get("status") or {})
        key = spec.address.key
    except (ValidationError, InvalidAddress, KeyError) as error:
        raise UnusableOffice(f"office {metadata['name']}: {type(error).__name__}") from None
    if key != metadata["name"]:
        raise UnusableOffice(f"office {metadata['name']}: its name is not the key of its spec ({key})")
    epoch = (metadata.get("annotations") or {}).get(names.ANNOTATION_TOKEN_EPOCH, "0")
    return OfficeRecord(
        key=key,
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        epoch=parse_epoch(epoch),
        deleting="deletionTimestamp" in metadata,
        spec=spec,
        status=status,
    )


def view_office(record: OfficeRecord, settings: Settings) -> OfficeView:
    """What holds for an office under these settings.

    A policy that is refused shows as not ready with the refusal as its message, and counts as isolated.
    """
    spec, status = record.spec, record.status
    ready = next((c for c in status.conditions if c.type == ConditionType.READY), None)
    message = next((c.message for c in status.conditions if _is_fault(c.type, c.status, c.reason)), "")
    refused = False
    try:
        policy, _ = effective_door_policy(spec, settings)
    except InvalidPolicy as error:
        policy, refused, message = DoorPolicy(), True, str(error)
    return OfficeView(
        key=record.key,
        uid=record.uid,
        token_epoch=record.epoch,
        address=spec.address,
        llm=effective_llm(spec, settings),
        budgets=effective_budgets(spec, settings),
        door_policy=policy,
        auto_reply=settings.auto_reply if spec.auto_reply is None else spec.auto_reply == "Enabled",
        suspended=spec.suspend,
        ready=not refused and ready is not None and ready.status == "True",
        reason=Reason.INVALID_POLICY if refused else (ready.reason if ready else ""),
        message=message,
        agent_pod_uid=_agent_pod(status),
    )


def _is_fault(kind: str, status: str, reason: str) -> bool:
    return kind in _SHOWN and status == "False" and reason not in _FINE


def _agent_pod(status: OfficeStatus) -> str | None:
    """As `OfficeView.agent_pod_uid`: empty only once the operator has said that there is no pod."""
    if status.agent is not None:
        return status.agent.pod_uid
    return "" if status.conditions else None
