"""Configuration of the models process: its environment (`Config`) and the file ``models.json`` (`ModelsConfig`).

The file names providers, where they are and what their models cost. Keys are never in it: ``keyFile`` names a file in
``MIKAN_MODELS_KEYS_DIR``, which is a Secret mounted as a directory. Everything is read again when it changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from mikan_api.base import ApiModel
from mikan_api.environment import Environment, Listen
from mikan_api.events import describe
from mikan_api.exceptions import ConfigError

Usd = Annotated[float, Field(ge=0, le=1_000_000)]
Seconds = Annotated[float, Field(gt=0, le=3600)]
ProviderName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$")]
BaseUrl = Annotated[str, Field(pattern=r"^https?://[^\s?#]+$", max_length=2048)]


class ModelEntry(ApiModel):
    """What is known of one model. Prices are USD per million tokens."""

    input_usd_per_million: Usd | None = None
    output_usd_per_million: Usd | None = None
    cached_input_usd_per_million: Usd | None = None
    cache_write_usd_per_million: Usd | None = None
    context_window: Annotated[int, Field(gt=0)] | None = None
    max_output: Annotated[int, Field(gt=0)] | None = None
    supports_images: bool = False
    thinking: bool = True
    """Whether ``reasoning_effort`` may be sent; false drops it."""

    @model_validator(mode="after")
    def _priced_whole(self) -> "ModelEntry":
        if (self.input_usd_per_million is None) != (self.output_usd_per_million is None):
            raise ValueError("inputUsdPerMillion and outputUsdPerMillion come together")
        return self


class ProviderEntry(ApiModel):
    """One upstream.

    ``openai`` speaks the OpenAI form and is passed through; ``litellm`` is translated by litellm; ``scripted`` is the
    built-in scripted model.
    """

    kind: Literal["openai", "litellm", "scripted"]
    api_base: BaseUrl | None = None
    """``openai``: required, up to and with ``/v1``. ``litellm``: only where it is not that provider's own."""
    litellm_provider: Annotated[str, Field(pattern=r"^[a-z0-9_]+$", max_length=64)] | None = None
    """litellm's name of the provider, like ``anthropic``; required with ``litellm``."""
    key_file: FileName | None = None
    timeout_seconds: Seconds = 120
    """Longest wait for the first byte of an answer."""
    idle_timeout_seconds: Seconds = 90
    """Longest silence within an answer."""
    headers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$", max_length=128)], str] = {}
    models: dict[Annotated[str, Field(min_length=1, max_length=200)], ModelEntry] = {}
    scripts: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """``scripted``: a directory of more scripts, relative to the configuration's own."""

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> "ProviderEntry":
        if self.kind == "openai" and self.api_base is None:
            raise ValueError("kind openai needs apiBase")
        if (self.kind == "litellm") != (self.litellm_provider is not None):
            raise ValueError("litellmProvider comes with kind litellm, and only with it")
        if self.scripts is not None and self.kind != "scripted":
            raise ValueError("scripts come with kind scripted only")
        return self


class Limits(ApiModel):
    """Bounds of this process."""

    calls_per_office: Annotated[int, Field(ge=1)] = 8
    calls: Annotated[int, Field(ge=1)] = 256
    request_bytes: Annotated[int, Field(ge=1024)] = 20 * 1024 * 1024
    call_seconds: Annotated[float, Field(gt=0)] = 3600
    """Longest life of one call, from its admission to its last byte."""


class ModelsConfig(ApiModel):
    """The whole of ``models.json``."""

    providers: dict[ProviderName, ProviderEntry] = {"scripted": ProviderEntry(kind="scripted")}
    cap_usd_per_office: Annotated[float, Field(gt=0)] | None = None
    cap_window_hours: Annotated[int, Field(ge=1, le=24 * 31)] = 24
    limits: Limits = Limits()


def parse_models_config(document: str | bytes) -> ModelsConfig:
    """Read ``models.json``.

    Raises:
        ConfigError: the message names each wrong field.
    """
    try:
        return ModelsConfig.model_validate_json(document)
    except ValidationError as error:
        raise ConfigError(f"models.json: {describe(error)}") from None


@dataclass(frozen=True, slots=True)
class Config:
    """What the process's environment says."""

    offices_namespace: str
    settings_dir: Path
    keys_dir: Path
    models_config: Path
    models_keys_dir: Path
    listen: Listen
    log_level: str

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Config":
        """Read the environment.

        Raises:
            ConfigError: a variable is missing or wrong; the message names it.
        """
        env = Environment(environ)
        return cls(
            offices_namespace=env.required("MIKAN_OFFICES_NAMESPACE"),
            settings_dir=env.path("MIKAN_SETTINGS_DIR", "/etc/mikan/settings"),
            keys_dir=env.path("MIKAN_KEYS_DIR", "/etc/mikan/keys"),
            models_config=env.path("MIKAN_MODELS_CONFIG", "/etc/mikan/models/models.json"),
            models_keys_dir=env.path("MIKAN_MODELS_KEYS_DIR", "/etc/mikan/models-keys"),
            listen=env.listen(),
            log_level=env.log_level(),
        )
