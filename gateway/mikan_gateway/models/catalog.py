"""The providers as configured now: ``models.json``, key files and scripts together, as one value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mikan_api.exceptions import ConfigError
from mikan_api.mounted import read_file
from mikan_gateway.models.chat import Usage
from mikan_gateway.models.config import ModelEntry, ModelsConfig, ProviderEntry, parse_models_config
from mikan_gateway.models.exceptions import CallRefused
from mikan_gateway.models.pricing import Price, configured_price
from mikan_gateway.models.providers.provider import Provider
from mikan_gateway.models.scripted.provider import ScriptedProvider
from mikan_gateway.models.scripted.script import read_scripts

MAX_KEY_BYTES = 16_384
NewProvider = Callable[[str, ProviderEntry, str | None], Provider]
"""Builds a provider of its name, entry and key."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """What can be called. ``faults`` names providers that cannot be used, and why."""

    config: ModelsConfig
    providers: Mapping[str, Provider]
    faults: Mapping[str, str]

    def provider(self, name: str) -> Provider:
        """A provider by name.

        Raises:
            CallRefused: 404 for an unknown one, 503 for one at fault.
        """
        if name in self.faults:
            message = f"provider {name} cannot be used: {self.faults[name]}; an admin must repair it"
            raise CallRefused(503, "server_error", "provider_fault", message)
        if name not in self.providers:
            known = ", ".join(sorted(self.providers)) or "none"
            message = f"no provider {name!r} is configured; known: {known}"
            raise CallRefused(404, "invalid_request_error", "model_not_found", message)
        return self.providers[name]

    def entry(self, provider: str, model: str) -> ModelEntry | None:
        """What the configuration says of a model."""
        configured = self.config.providers.get(provider)
        return configured.models.get(model) if configured else None

    def price(self, provider: str, model: str, usage: Usage) -> Price | None:
        """The configured price, else the provider's own."""
        return configured_price(self.entry(provider, model)) or self.providers[provider].price(model, usage)

    def window(self, provider: str, model: str) -> int | None:
        """A model's context window in tokens: the configured one, else the provider's own.

        Raises:
            CallRefused: no such provider, or one at fault.
        """
        entry = self.entry(provider, model)
        own = self.provider(provider).window(model)
        return entry.context_window if entry and entry.context_window else own

    def listed(self) -> list[tuple[str, ModelEntry]]:
        """Models that are configured by name, and all scripts."""
        found: dict[str, ModelEntry] = {}
        for name, provider in self.providers.items():
            if isinstance(provider, ScriptedProvider):
                found |= {f"{name}/{script}": ModelEntry() for script in provider.scripts}
            found |= {f"{name}/{model}": entry for model, entry in self.config.providers[name].models.items()}
        return sorted(found.items())


def load_catalog(config_file: Path, keys_dir: Path, new_provider: NewProvider) -> Catalog:
    """Read everything. Blocking. A provider without its key is at fault alone; the others work.

    Raises:
        ConfigError: ``models.json`` itself cannot be used.
    """
    config = parse_models_config(read_file(config_file, "MIKAN_MODELS_CONFIG"))
    providers: dict[str, Provider] = {}
    faults: dict[str, str] = {}
    for name, entry in config.providers.items():
        try:
            if entry.kind == "scripted":
                scripts = config_file.parent / entry.scripts if entry.scripts else None
                providers[name] = ScriptedProvider(read_scripts(scripts))
            else:
                key = _read_key(keys_dir / entry.key_file) if entry.key_file else None
                providers[name] = new_provider(name, entry, key)
        except ConfigError as error:
            faults[name] = str(error)
    return Catalog(config, providers, faults)


def _read_key(path: Path) -> str:
    raw = read_file(path, "MIKAN_MODELS_KEYS_DIR")
    try:
        key = raw.decode("ascii").strip()
    except UnicodeDecodeError:
        key = ""
    if not key or len(raw) > MAX_KEY_BYTES or not key.isprintable():
        raise ConfigError(f"key file {path.name} is empty or is not one line of ASCII")
    return key


def watched_directories(config_file: Path, keys_dir: Path, catalog: Catalog | None) -> list[Path]:
    """Where a change may change the catalog."""
    scripts = [entry.scripts for entry in catalog.config.providers.values() if entry.scripts] if catalog else []
    return [config_file.parent, keys_dir, *(config_file.parent / folder for folder in scripts)]
