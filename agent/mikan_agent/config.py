"""Boot configuration of the agent process: environment variables, read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from mikan_agent.exceptions import ConfigError
from mikan_api import names
from mikan_api.durations import parse_duration
from mikan_api.exceptions import InvalidValue
from mikan_api.identity import OfficeAddress, OfficeKey
from mikan_api.sandbox_mode import SandboxMode, parse_sandbox_mode

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that this process is told at its start."""

    office: OfficeAddress
    gateway_url: str
    """Base URL, ``http`` or ``https``, without a slash at its end."""
    models_url: str
    tokens: Path
    """Directory of the token files; each is read again whenever it is needed."""
    pod_name: str
    pod_uid: str
    namespace: str
    sandbox_mode: SandboxMode
    sandbox_pod: str
    log_level: str = "INFO"
    drain: timedelta = timedelta(seconds=20)
    """How long running work may go on after SIGTERM."""

    @property
    def key(self) -> OfficeKey:
        """The key of the office this process serves."""
        return self.office.key

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Config":
        """Read the environment.

        Raises:
            ConfigError: one line that names the variable which is missing or wrong.
        """
        level = environ.get("MIKAN_LOG_LEVEL", "INFO").upper()
        if level not in _LEVELS:
            raise ConfigError(f"MIKAN_LOG_LEVEL: {level!r} is none of {', '.join(_LEVELS)}")
        try:
            office = OfficeAddress.parse(
                _required(environ, "MIKAN_OFFICE_PLATFORM"), _required(environ, "MIKAN_OFFICE_CONVERSATION")
            )
        except InvalidValue as error:
            raise ConfigError(f"MIKAN_OFFICE_PLATFORM, MIKAN_OFFICE_CONVERSATION: {error}") from None
        try:
            mode = parse_sandbox_mode(_required(environ, "MIKAN_SANDBOX_MODE"))
        except InvalidValue as error:
            raise ConfigError(f"MIKAN_SANDBOX_MODE: {error}") from None
        try:
            drain = parse_duration(environ.get("MIKAN_DRAIN", "20s"))
        except InvalidValue as error:
            raise ConfigError(f"MIKAN_DRAIN: {error}") from None
        return cls(
            office=office,
            gateway_url=_url(environ, "MIKAN_GATEWAY_URL"),
            models_url=_url(environ, "MIKAN_MODELS_URL"),
            tokens=Path(environ.get("MIKAN_TOKENS_DIR") or names.TOKENS),
            pod_name=_required(environ, "MIKAN_POD_NAME"),
            pod_uid=_required(environ, "MIKAN_POD_UID"),
            namespace=_required(environ, "MIKAN_NAMESPACE"),
            sandbox_mode=mode,
            sandbox_pod=_required(environ, "MIKAN_SANDBOX_POD") if mode.per_office else "",
            log_level=level,
            drain=drain,
        )


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise ConfigError(f"{name} is not set")
    return value


def _url(environ: Mapping[str, str], name: str) -> str:
    value = _required(environ, name).rstrip("/")
    if not value.startswith(("http://", "https://")) or "@" in value:
        raise ConfigError(f"{name} must be an http or https URL without credentials")
    return value
