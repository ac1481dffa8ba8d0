"""``operator.json``: what the chart tells the operator about this installation. Read once, at the start.

Unlike the settings, nothing here is for chat users or office admins: images, addresses, claims and node placement.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from mikan_api.base import ApiModel
from mikan_api.events import describe
from mikan_api.exceptions import ConfigError
from mikan_api.mounted import read_file

Text = Annotated[str, Field(min_length=1, max_length=512)]


class Images(ApiModel):
    """The images that office pods are made of."""

    agent: Text
    sandbox: Text
    """What the sandbox mode ``image:mikan-sandbox`` stands for."""
    sandbox_helper: Text
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: tuple[Text, ...] = ()


class Claims(ApiModel):
    """PersistentVolumeClaims in the offices namespace."""

    offices: Text = "mikan-offices"
    shared: Text = "mikan-shared"
    packages: Text = "mikan-packages"


class Agent(ApiModel):
    """The agent container."""

    resources: dict[str, dict[str, str | int]] = {}
    """Kubernetes form: ``requests`` and ``limits``."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"


class Sandbox(ApiModel):
    """Every sandbox pod."""

    nameservers: Annotated[tuple[Text, ...], Field(min_length=1, max_length=3)]
    """Resolvers of sandbox pods; cluster DNS is out of their reach."""


class Installation(ApiModel):
    """The whole document."""

    images: Images
    gateway_url: Text
    models_url: Text
    claims: Claims = Claims()
    agent: Agent = Agent()
    sandbox: Sandbox
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


def read_installation(file: Path) -> Installation:
    """Read the document.

    Raises:
        ConfigError: missing, or each wrong field named.
    """
    try:
        return Installation.model_validate_json(read_file(file, "MIKAN_OPERATOR_CONFIG"))
    except ValidationError as error:
        raise ConfigError(f"MIKAN_OPERATOR_CONFIG: {file}: {describe(error)}") from None
