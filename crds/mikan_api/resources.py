"""The three custom resources of group ``mikan.dev`` (architecture section 3), as pydantic models.

`mikan_api.crd` generates the YAML from them: bounds and enums come from the fields, CEL rules from `rules`, columns
from `COLUMNS`. CEL cannot see the global settings, so the operator checks the effective policy again.

Every reason and condition type that a status can hold is a constant here, so that docs, operator and tests agree.
"""

import hashlib
import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from mikan_api.base import ApiModel
from mikan_api.durations import Duration
from mikan_api.events import MAX_TEXT
from mikan_api.identity import MAX_CONVERSATION_ID, OfficeAddress, OfficeKey, Platform
from mikan_api.messaging import ConversationKind, TrustModel
from mikan_api.sandbox_mode import MAX_SANDBOX_MODE, SANDBOX_MODE_PATTERN
from mikan_api.settings import MODEL_PATTERN, Budgets, DoorPolicy, Name, Quantity, ThinkingLevel

MAX_MESSAGE = 32_768
ConversationId = Annotated[
    str, Field(min_length=1, max_length=MAX_CONVERSATION_ID, pattern=r"^[^:/\\\x00-\x1f\x7f-\x9f]+$")
]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
VariableName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
SecretDataKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """CEL rules (expression, message) for ``json_schema_extra``."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


DOT_NAMES = ("!(self.conversationId in ['.', '..'])", "conversationId can't be a dot name")


def immutable(field: str) -> tuple[str, str]:
    """The rule that a required field never changes."""
    return f"self.{field} == oldSelf.{field}", f"{field} is immutable"


class ConditionType(StrEnum):
    """Condition types of all three resources."""

    READY = "Ready"
    AGENT_READY = "AgentReady"
    SANDBOX_READY = "SandboxReady"
    VAULT_READY = "VaultReady"
    SECRET_FOUND = "SecretFound"  # noqa: S105  a condition's name
    MOUNTS_VALID = "MountsValid"
    SCHEDULED = "Scheduled"


class Reason(StrEnum):
    """Reasons of conditions. The comment of each says when."""

    STARTING = "Starting"  # pods wanted, not all of them ready
    RUNNING = "Running"  # agent connected or ready to be
    IDLE = "Idle"  # nothing to do; pods deleted, data kept
    SUSPENDED = "Suspended"  # spec.suspend
    STALE = "Stale"  # runs with settings older than the global ones until its run ends
    NOT_OWNED = "NotOwned"  # something else has the name that a child needs
    KEY_MISMATCH = "KeyMismatch"  # metadata.name is not the key of spec
    INVALID_POLICY = "InvalidPolicy"  # effective door policy or sandbox mode is refused
    TERMINATING = "Terminating"  # waiting until an old pod has released the volume
    POD_FAILED = "PodFailed"  # a pod failed and is made again
    POD_UNSCHEDULABLE = "PodUnschedulable"  # the scheduler finds no place
    IMAGE_UNAVAILABLE = "ImageUnavailable"  # the kubelet can't get an image
    CONTAINER_FAILING = "ContainerFailing"  # a container ends again and again
    RUNTIME_CLASS_NOT_FOUND = "RuntimeClassNotFound"
    MODE_UNAVAILABLE = "ModeUnavailable"  # sandbox mode that this installation does not offer
    FORBIDDEN = "Forbidden"  # the API server refused a child: quota, admission, RBAC
    NO_VAULT = "NoVault"  # nothing to mount
    BOUND = "Bound"  # vault mounted
    VAULT_NOT_READY = "VaultNotReady"
    NOT_ALLOWED = "NotAllowed"  # vault or Secret that this office may not use
    FOUND = "Found"
    SECRET_MISSING = "SecretMissing"  # noqa: S105  a reason's name
    SECRET_NOT_LABELLED = "SecretNotLabelled"  # noqa: S105  a reason's name
    VALID = "Valid"
    UNSAFE_KEY = "UnsafeKey"
    MOUNT_COLLISION = "MountCollision"
    KEY_MISSING = "KeyMissing"  # spec names a key that the Secret has not
    NAME_MISMATCH = "NameMismatch"  # a Vault whose name does not fit its scope
    SCHEDULED = "Scheduled"  # a ScheduledEvent that fires at status.nextFireTime
    OVER = "Over"  # a ScheduledEvent that won't fire any more; Ready says how it went
    INVALID_SCHEDULE = "InvalidSchedule"  # time, cron expression or zone that no calendar has
    MISSED = "Missed"  # too late by startingDeadlineSeconds
    QUEUE_FULL = "QueueFull"  # too many of this office's events wait already
    OFFICE_NOT_FOUND = "OfficeNotFound"  # nobody has spoken there yet, or its Office is gone
    OFFICE_SUSPENDED = "OfficeSuspended"
    PLATFORM_NOT_CONNECTED = "PlatformNotConnected"  # not enabled in this installation
    GATEWAY_UNAVAILABLE = "GatewayUnavailable"  # due, and the gateway can't be reached; tried again


class Condition(ApiModel):
    """A condition in the Kubernetes form."""

    model_config = ConfigDict(extra="ignore")

    type: Annotated[str, Field(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(min_length=1, max_length=1024)]
    message: Annotated[str, Field(max_length=MAX_MESSAGE)] = ""
    last_transition_time: datetime
    observed_generation: Annotated[int, Field(ge=0)] | None = None


Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


class OfficeDoorPolicy(ApiModel):
    """Data access of the office; absent = the global setting."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self.trust != 'isolated' || self.layout == 'conversation'", "isolated implies the layout conversation")
        )
    )

    trust: Literal["isolated", "trusted"] = "isolated"
    layout: Literal["conversation", "shared-support", "full"] = "conversation"


class OfficeLlm(ApiModel):
    """Which model answers here; absent fields = the global settings."""

    model: Annotated[str, Field(min_length=3, max_length=256, pattern=MODEL_PATTERN)] | None = None
    thinking_level: ThinkingLevel | None = None


class OfficeResources(ApiModel):
    """Requests and limits of this office's sandbox; absent fields = the global settings."""

    cpu_request: Quantity | None = None
    memory_request: Quantity | None = None
    cpu_limit: Quantity | None = None
    memory_limit: Quantity | None = None
    ephemeral_storage_limit: Quantity | None = None


class OfficeSandbox(ApiModel):
    """Where this office's commands run; absent fields = the global settings."""

    mode: Annotated[str, Field(pattern=SANDBOX_MODE_PATTERN, max_length=MAX_SANDBOX_MODE)] | None = None
    resources: OfficeResources | None = None
    boost: bool | None = None
    """Use the boosted resources of the settings."""
    env: Annotated[dict[VariableName, Annotated[str, Field(max_length=4_096)]], Field(max_length=64)] | None = None


class OfficeSpec(ApiModel):
    """What an office is, and how it differs from the global settings."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            immutable("platform"),
            immutable("conversationId"),
            immutable("trustModel"),
            DOT_NAMES,
            (
                "self.trustModel != 'open-trigger' || !has(self.doorPolicy) || self.doorPolicy.layout != 'full'",
                "an open-trigger conversation can't be trusted with the full layout",
            ),
        )
    )

    platform: Platform
    conversation_id: ConversationId
    trust_model: TrustModel
    conversation_kind: ConversationKind = ConversationKind.DIRECT
    display_name: Annotated[str, Field(max_length=256)] | None = None
    door_policy: OfficeDoorPolicy | None = None
    llm: OfficeLlm | None = None
    sandbox: OfficeSandbox | None = None
    budgets: Budgets | None = None
    auto_reply: Literal["Enabled", "Disabled"] | None = None
    packages: Annotated[tuple[Name, ...], Field(max_length=64)] | None = None
    vault_name: ObjectName | None = None
    """A shared vault that allows this office; default: the Vault named like the office, if there is one."""
    idle_timeout: Duration | None = None
    suspend: bool = False
    data_retention: Literal["Retain", "Delete"] = "Retain"

    @property
    def address(self) -> OfficeAddress:
        """The office's identity.

        Raises:
            InvalidAddress: the schema let an id through that the key derivation refuses (``.`` or ``..``).
        """
        return OfficeAddress(self.platform, self.conversation_id)


class EffectiveDoorPolicy(ApiModel):
    """The door policy that holds, and where it comes from."""

    model_config = ConfigDict(extra="ignore")

    trust: Annotated[str, Field(max_length=32)]
    layout: Annotated[str, Field(max_length=32)]
    source: Literal["Office", "Settings"]

    @classmethod
    def of(cls, policy: DoorPolicy, source: Literal["Office", "Settings"]) -> "EffectiveDoorPolicy":
        """The status form of a policy."""
        return cls(trust=policy.trust.value, layout=policy.layout.value, source=source)


class PodReference(ApiModel):
    """A pod of an office."""

    model_config = ConfigDict(extra="ignore")

    pod_name: Annotated[str, Field(max_length=253)]
    pod_uid: Annotated[str, Field(max_length=64)] | None = Field(default=None, alias="podUID")


class OfficeStatus(ApiModel):
    """What the operator observed; the last two fields are the gateway's (field manager ``mikan-gateway``)."""

    model_config = ConfigDict(extra="ignore")

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    conditions: Conditions = ()
    door_policy: EffectiveDoorPolicy | None = None
    llm_model: Annotated[str, Field(max_length=256)] | None = None
    agent: PodReference | None = None
    sandbox: PodReference | None = None
    last_activity_time: datetime | None = None
    running_sessions: Annotated[int, Field(ge=0)] | None = None


class VaultScope(StrEnum):
    """Whose credentials a vault holds; the first part of its name, save for an office's own."""

    OFFICE = "office"
    SHARED = "shared"
    CONTAINER = "container"
    USER = "user"


class VaultFile(ApiModel):
    """A key that lands as a file below the home directory."""

    key: SecretDataKey
    path: (
        Annotated[str, Field(min_length=1, max_length=512, pattern=r"^(~/)?[A-Za-z0-9._@+-]+(/[A-Za-z0-9._@+-]+)*$")]
        | None
    ) = None
    """Below ``~``; default by the key's name (``gws.json``, ``gcloud-adc.json``, else ``~/<key>``)."""
    mode: Annotated[str, Field(pattern=r"^0?[0-7]{3}$", max_length=4)] = "0600"


class VaultSpec(ApiModel):
    """Which keys of a Secret reach an office's commands, and how."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            immutable("scope"),
            ("!has(self.allowedOffices) || self.scope == 'shared'", "only a shared vault has allowedOffices"),
        )
    )

    scope: VaultScope
    secret_name: ObjectName | None = None
    """Default: the vault's own name."""
    env: (
        Annotated[tuple[VariableName, ...], Field(max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"})]
        | None
    ) = None
    """Keys that become variables; default: every key that is a valid variable name."""
    files: Annotated[
        tuple[VaultFile, ...],
        Field(
            max_length=128, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]}
        ),
    ] = ()
    allowed_offices: (
        Annotated[tuple[ObjectName, ...], Field(max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"})]
        | None
    ) = None
    """Office keys that a shared vault may be used by."""


class VaultStatus(ApiModel):
    """Names only, never values."""

    model_config = ConfigDict(extra="ignore")

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    conditions: Conditions = ()
    variables: Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(max_length=1024)] = ()
    files: Annotated[tuple[Annotated[str, Field(max_length=1024)], ...], Field(max_length=1024)] = ()
    bound_offices: Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(max_length=1024)] = ()
    secret_resource_version: Annotated[str, Field(max_length=64)] | None = None


class EventSource(StrEnum):
    """Who made a scheduled event."""

    ADMIN = "admin"
    AGENT = "agent"
    EXTENSION = "extension"
    FILE = "file"


class ScheduledEventSpec(ApiModel):
    """A prompt that is delivered by the clock."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            DOT_NAMES,
            ("(self.type == 'one-shot') == has(self.at)", "at belongs to type one-shot, and it needs it"),
            ("(self.type == 'periodic') == has(self.schedule)", "schedule belongs to type periodic, and it needs it"),
            ("(self.type == 'periodic') == has(self.timezone)", "timezone belongs to type periodic, and it needs it"),
        )
    )

    type: Literal["immediate", "one-shot", "periodic"]
    platform: Platform
    conversation_id: ConversationId
    conversation_kind: ConversationKind = ConversationKind.DIRECT
    user_id: Annotated[str, Field(max_length=256)] | None = None
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    at: (
        Annotated[
            str,
            Field(max_length=64, pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$"),
        ]
        | None
    ) = None
    schedule: Annotated[str, Field(min_length=9, max_length=256)] | None = None
    timezone: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    suspend: bool = False
    starting_deadline_seconds: Annotated[int, Field(ge=0, le=31_536_000)] | None = None
    source: EventSource = EventSource.ADMIN


class Delivery(ApiModel):
    """What became of one firing."""

    model_config = ConfigDict(extra="ignore")

    id: Annotated[str, Field(max_length=256)]
    result: Annotated[str, Field(max_length=64)]
    message: Annotated[str, Field(max_length=1024)] = ""


class ScheduledEventStatus(ApiModel):
    """When it fires next and how the last firing went."""

    model_config = ConfigDict(extra="ignore")

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    conditions: Conditions = ()
    next_fire_time: datetime | None = None
    last_fire_time: datetime | None = None
    last_delivery: Delivery | None = None


def vault_name(scope: VaultScope, name: str) -> str:
    """The object name of a vault, from a name given in chat or by an admin.

    An office's own vault is named by the office key as it is. Others are slugged and, where slugging changed anything,
    hashed like keys; the scope's prefix keeps them apart from each other and from office keys (``v1-…``).
    """
    if scope is VaultScope.OFFICE:
        return name
    if scope is VaultScope.USER:
        return f"user-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32].rstrip("-")
    if slug == name:
        return f"{scope.value}-{slug}"
    digest = hashlib.sha256(f"{scope.value}\0{name}".encode()).hexdigest()[:16]
    return f"{scope.value}-{slug or 'vault'}-{digest}"


def own_vault_name(key: OfficeKey) -> str:
    """The object name of an office's own vault."""
    return vault_name(VaultScope.OFFICE, key)
