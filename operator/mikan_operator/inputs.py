"""The mounted files that may change while the operator runs: global settings and token keys."""

from dataclasses import dataclass
from pathlib import Path

from mikan_api.mounted import Reloaded, read_settings, read_token_key
from mikan_api.settings import Settings


@dataclass(frozen=True, slots=True, repr=False)
class TokenKeys:
    """The current keys that office tokens are issued with. Has no useful ``repr``, on purpose."""

    gateway: bytes
    models: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Inputs:
    """What holds now."""

    settings: Settings
    keys: TokenKeys


def read_inputs(settings_dir: Path, keys_dir: Path) -> Inputs:
    """Read both directories. Blocking.

    Raises:
        ConfigError: a file is missing or wrong; the message names it and no value.
    """
    keys = TokenKeys(read_token_key(keys_dir / "gateway"), read_token_key(keys_dir / "models"))
    return Inputs(read_settings(settings_dir), keys)


def mounted_inputs(settings_dir: Path, keys_dir: Path) -> Reloaded[Inputs]:
    """The inputs, followed as one value. Blocking.

    Raises:
        ConfigError: see `read_inputs`.
    """
    return Reloaded.read("settings and keys", lambda: read_inputs(settings_dir, keys_dir), [settings_dir, keys_dir])
