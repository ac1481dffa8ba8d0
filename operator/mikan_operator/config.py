"""Boot configuration of the operator: environment variables, read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mikan_operator.exceptions import ConfigError

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that the process is told from outside, but for mounted files."""

    namespace: str
    """Where the Lease is."""
    offices_namespace: str
    settings_dir: Path
    keys_dir: Path
    installation_file: Path
    listen_host: str
    listen_port: int
    log_level: str
    identity: str
    """Who holds the Lease: the pod's name."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Config":
        """Read the configuration.

        Raises:
            ConfigError: one line that names the variable which is missing or wrong.
        """
        level = environ.get("MIKAN_LOG_LEVEL", "INFO").upper()
        if level not in _LEVELS:
            raise ConfigError(f"MIKAN_LOG_LEVEL: {level!r} is none of {', '.join(_LEVELS)}")
        host, port = _listen(environ.get("MIKAN_LISTEN", "0.0.0.0:8080"))
        return cls(
            namespace=_required(environ, "MIKAN_NAMESPACE"),
            offices_namespace=_required(environ, "MIKAN_OFFICES_NAMESPACE"),
            settings_dir=Path(environ.get("MIKAN_SETTINGS_DIR", "/etc/mikan/settings")),
            keys_dir=Path(environ.get("MIKAN_KEYS_DIR", "/etc/mikan/keys")),
            installation_file=Path(environ.get("MIKAN_OPERATOR_CONFIG", "/etc/mikan/operator/operator.json")),
            listen_host=host,
            listen_port=port,
            log_level=level,
            identity=environ.get("MIKAN_POD_NAME") or environ.get("HOSTNAME") or "mikan-operator",
        )


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise ConfigError(f"{name} is not set")
    return value


def _listen(value: str) -> tuple[str, int]:
    host, colon, port = value.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ConfigError(f"MIKAN_LISTEN: {value!r} is not host:port")
    return host.strip("[]"), int(port)
