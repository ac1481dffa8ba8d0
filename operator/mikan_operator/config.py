"""Boot configuration of the operator: environment variables, read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mikan_api.environment import Environment, Listen


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that the process is told from outside, but for mounted files."""

    namespace: str
    """Where the Lease is."""
    offices_namespace: str
    settings_dir: Path
    keys_dir: Path
    installation_file: Path
    listen: Listen
    log_level: str
    identity: str
    """Who holds the Lease: the pod's name."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Config":
        """Read the configuration.

        Raises:
            ConfigError: one line that names the variable which is missing or wrong.
        """
        env = Environment(environ)
        return cls(
            namespace=env.required("MIKAN_NAMESPACE"),
            offices_namespace=env.required("MIKAN_OFFICES_NAMESPACE"),
            settings_dir=env.path("MIKAN_SETTINGS_DIR", "/etc/mikan/settings"),
            keys_dir=env.path("MIKAN_KEYS_DIR", "/etc/mikan/keys"),
            installation_file=env.path("MIKAN_OPERATOR_CONFIG", "/etc/mikan/operator/operator.json"),
            listen=env.listen(),
            log_level=env.log_level(),
            identity=env.text("MIKAN_POD_NAME", env.text("HOSTNAME", "mikan-operator")),
        )
