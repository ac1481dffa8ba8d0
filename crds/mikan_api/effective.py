"""What holds for an office: its spec over the global settings. The one place where that is decided.

CEL cannot see the settings, so the rules that join both are checked here: operator and gateway get the same answer.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from mikan_api.durations import parse_duration
from mikan_api.exceptions import InvalidSandboxMode, InvalidValue
from mikan_api.messaging import ConversationKind, TrustModel
from mikan_api.packages import DeclaredPackages
from mikan_api.resources import OfficeSpec
from mikan_api.sandbox_mode import SandboxKind, SandboxMode, parse_sandbox_mode
from mikan_api.settings import Budgets, DoorPolicy, Layout, Llm, Resources, Settings, Trust


class InvalidPolicy(InvalidValue):
    """An office's spec and the settings together ask for something that is refused."""


@dataclass(frozen=True, slots=True)
class EffectiveOffice:
    """The values that hold for an office."""

    door_policy: DoorPolicy
    door_policy_source: Literal["Office", "Settings"]
    llm: Llm
    budgets: Budgets
    auto_reply: bool
    idle_timeout: timedelta
    sandbox_mode: SandboxMode
    sandbox_resources: Resources
    sandbox_env: dict[str, str]
    packages: DeclaredPackages


def effective_office(spec: OfficeSpec, settings: Settings) -> EffectiveOffice:
    """Merge an office's spec over the settings.

    Raises:
        InvalidPolicy: the door policy or the sandbox mode that results is refused; the message says why.
    """
    policy, source = effective_door_policy(spec, settings)
    return EffectiveOffice(
        door_policy=policy,
        door_policy_source=source,
        llm=effective_llm(spec, settings),
        budgets=effective_budgets(spec, settings),
        auto_reply=settings.auto_reply if spec.auto_reply is None else spec.auto_reply == "Enabled",
        idle_timeout=parse_duration(spec.idle_timeout or settings.idle_timeout),
        sandbox_mode=effective_sandbox_mode(spec, settings, policy),
        sandbox_resources=effective_resources(spec, settings),
        sandbox_env=settings.sandbox.env | ((spec.sandbox and spec.sandbox.env) or {}),
        packages=DeclaredPackages(settings.packages, spec.packages or ()),
    )


def effective_door_policy(spec: OfficeSpec, settings: Settings) -> tuple[DoorPolicy, Literal["Office", "Settings"]]:
    """The door policy that holds, and where it comes from.

    Raises:
        InvalidPolicy: an open-trigger conversation would see the whole workspace.
    """
    source: Literal["Office", "Settings"] = "Office" if spec.door_policy else "Settings"
    policy = settings.door_policy
    if spec.door_policy:
        policy = DoorPolicy(trust=Trust(spec.door_policy.trust), layout=Layout(spec.door_policy.layout))
    if spec.trust_model is TrustModel.OPEN_TRIGGER and policy.layout is Layout.FULL:
        raise InvalidPolicy("an open-trigger conversation can't have the full layout; set spec.doorPolicy")
    return policy, source


def effective_llm(spec: OfficeSpec, settings: Settings) -> Llm:
    """Model and thinking level each by itself: the office's where it has one, else the global one."""
    own = spec.llm.model_dump(exclude_none=True) if spec.llm else {}
    return settings.llm.model_copy(update=own)


def effective_budgets(spec: OfficeSpec, settings: Settings) -> Budgets:
    """Each cap by itself: the office's where it has one, else the global one."""
    own = spec.budgets.model_dump(exclude_none=True) if spec.budgets else {}
    return settings.budgets.model_copy(update=own)


def effective_resources(spec: OfficeSpec, settings: Settings) -> Resources:
    """Each request and limit by itself: the office's where it has one, else the boosted or the usual global one."""
    sandbox = spec.sandbox
    base = (settings.sandbox.boost if sandbox and sandbox.boost else None) or settings.sandbox.resources
    own = sandbox.resources.model_dump(exclude_none=True) if sandbox and sandbox.resources else {}
    return base.model_copy(update=own)


def effective_sandbox_mode(spec: OfficeSpec, settings: Settings, policy: DoorPolicy) -> SandboxMode:
    """The sandbox mode that holds.

    Raises:
        InvalidPolicy: outside the grammar, or a mode that the office's kind or door policy forbids.
    """
    try:
        mode = parse_sandbox_mode((spec.sandbox and spec.sandbox.mode) or settings.sandbox.mode)
    except InvalidSandboxMode as error:
        raise InvalidPolicy(str(error)) from None
    if mode.kind is SandboxKind.HOST and spec.conversation_kind is ConversationKind.SHARED:
        raise InvalidPolicy("sandbox mode host is refused for shared conversations")
    if mode.kind is SandboxKind.CONTAINER and policy.trust is Trust.ISOLATED:
        raise InvalidPolicy("sandbox mode container:<name> shares files and processes: refused for isolated offices")
    return mode
