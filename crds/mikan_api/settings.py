"""Global settings: the document of ConfigMap ``mikan-settings``, with ``mikan-settings-overrides`` merged leaf by leaf.

An Office's spec may narrow or replace some of them; `effective_*` is the one place that decides what then holds.
"""

import json
from enum import StrEnum
from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from mikan_api.base import ApiModel
from mikan_api.durations import Duration
from mikan_api.events import describe
from mikan_api.exceptions import InvalidSettings
from mikan_api.identity import Platform
from mikan_api.sandbox_mode import MAX_SANDBOX_MODE, SANDBOX_MODE_PATTERN

Name = Annotated[str, Field(min_length=1, max_length=253)]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$", max_length=32)]


class Trust(StrEnum):
    """How far an office's door is open to the rest of the workspace."""

    ISOLATED = "isolated"
    TRUSTED = "trusted"


class Layout(StrEnum):
    """What an office's sandbox sees of the workspace."""

    CONVERSATION = "conversation"
    SHARED_SUPPORT = "shared-support"
    FULL = "full"


class ThinkingLevel(StrEnum):
    """How much a model should think before it answers."""

    OFF = "off"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class DoorPolicy(ApiModel):
    """Data access of an office. Isolated always means the conversation layout."""

    trust: Trust = Trust.ISOLATED
    layout: Layout = Layout.CONVERSATION

    @model_validator(mode="after")
    def _isolated_sees_itself_only(self) -> "DoorPolicy":
        if self.trust is Trust.ISOLATED and self.layout is not Layout.CONVERSATION:
            raise ValueError("an isolated office has the layout 'conversation'")
        return self


MODEL_PATTERN = r"^[^/\s]+/\S+$"


class Llm(ApiModel):
    """Which model answers. ``provider/model``."""

    model: Annotated[str, Field(min_length=3, max_length=256, pattern=MODEL_PATTERN)] = "scripted/demo"
    thinking_level: ThinkingLevel = ThinkingLevel.OFF


class Resources(ApiModel):
    """Requests and limits of a sandbox container, in Kubernetes quantities."""

    cpu_request: Quantity = "50m"
    memory_request: Quantity = "64Mi"
    cpu_limit: Quantity = "1"
    memory_limit: Quantity = "512Mi"
    ephemeral_storage_limit: Quantity = "2Gi"


class SandboxSettings(ApiModel):
    """Where commands run."""

    mode: Annotated[str, Field(pattern=SANDBOX_MODE_PATTERN, max_length=MAX_SANDBOX_MODE)] = "image:mikan-sandbox"
    resources: Resources = Resources()
    boost: Resources | None = None
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)], str] = {}
    runtime_classes: dict[str, Name] = {}
    """RuntimeClass of the modes ``gondolin`` and ``firecracker``."""


class Budgets(ApiModel):
    """Caps of one run; absent means no cap of that kind."""

    tokens: Annotated[int, Field(gt=0)] | None = None
    cost_usd: Annotated[float, Field(gt=0)] | None = None
    duration: Duration | None = None
    model_calls: Annotated[int, Field(gt=0)] | None = None


class Admission(ApiModel):
    """Who may create or use an office on a platform. ``open`` skips the lists (platforms with a membership of their
    own)."""

    open: bool = False
    teams: tuple[Name, ...] = ()
    guilds: tuple[Name, ...] = ()
    conversations: tuple[Name, ...] = ()
    users: tuple[Name, ...] = ()
    offices_per_hour: Annotated[int, Field(ge=1)] = 60
    """Creation rate of new offices on this platform."""


class Settings(ApiModel):
    """The whole document. Every field has a default, so that an empty document is a working one."""

    door_policy: DoorPolicy = DoorPolicy()
    llm: Llm = Llm()
    sandbox: SandboxSettings = SandboxSettings()
    budgets: Budgets = Budgets(model_calls=100, duration="30m")
    auto_reply: bool = False
    idle_timeout: Duration = "15m"
    packages: tuple[Name, ...] = ()
    admins: dict[Platform, tuple[Name, ...]] = {}
    admission: dict[Platform, Admission] = {Platform.CONSOLE: Admission(open=True)}
    models_cap_usd_per_office: Annotated[float, Field(gt=0)] | None = None
    """What one office may spend in 24 hours, enforced by the models process."""


def merge_leaves(base: dict[str, object], override: dict[str, object]) -> dict[str, object]:
    """Merge two documents leaf by leaf; an override of ``None`` restores the default."""
    merged = dict(base)
    for key, value in override.items():
        below = merged.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[key] = merge_leaves(below, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def parse_settings(document: str, overrides: str = "{}") -> Settings:
    """Read the settings and the admin portal's overrides (JSON objects).

    Raises:
        InvalidSettings: the message names each wrong field, never a value.
    """
    try:
        base, over = json.loads(document or "{}"), json.loads(overrides or "{}")
    except ValueError as error:
        raise InvalidSettings(f"settings are not JSON: {error}") from None
    if not isinstance(base, dict) or not isinstance(over, dict):
        raise InvalidSettings("settings must be a JSON object")
    try:
        return Settings.model_validate(merge_leaves(base, over))
    except ValidationError as error:
        raise InvalidSettings(describe(error)) from None
