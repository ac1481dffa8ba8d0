"""Boot configuration of the agent process: environment variables, read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from mikan_api import names
from mikan_api.environment import Environment, naming
from mikan_api.identity import OfficeAddress, OfficeKey
from mikan_api.packages import DeclaredPackages, parse_declared
from mikan_api.sandbox_mode import SandboxMode, parse_sandbox_mode


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
    packages: DeclaredPackages = DeclaredPackages()

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
        env = Environment(environ)
        with naming("MIKAN_OFFICE_PLATFORM", "MIKAN_OFFICE_CONVERSATION"):
            office = OfficeAddress.parse(
                env.required("MIKAN_OFFICE_PLATFORM"), env.required("MIKAN_OFFICE_CONVERSATION")
            )
        with naming("MIKAN_SANDBOX_MODE"):
            mode = parse_sandbox_mode(env.required("MIKAN_SANDBOX_MODE"))
        return cls(
            office=office,
            gateway_url=env.url("MIKAN_GATEWAY_URL").rstrip("/"),
            models_url=env.url("MIKAN_MODELS_URL").rstrip("/"),
            tokens=env.path("MIKAN_TOKENS_DIR", names.TOKENS),
            pod_name=env.required("MIKAN_POD_NAME"),
            pod_uid=env.required("MIKAN_POD_UID"),
            namespace=env.required("MIKAN_NAMESPACE"),
            sandbox_mode=mode,
            sandbox_pod=env.required("MIKAN_SANDBOX_POD") if mode.per_office else "",
            log_level=env.log_level(),
            drain=env.duration("MIKAN_DRAIN", "20s"),
            packages=_packages(env),
        )


def _packages(env: Environment) -> DeclaredPackages:
    text = env.text("MIKAN_PACKAGES")
    with naming("MIKAN_PACKAGES"):
        return parse_declared(text) if text else DeclaredPackages()
