"""Boot configuration of the gateway: environment variables, read once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from mikan_api.environment import Environment, Listen
from mikan_api.exceptions import ConfigError
from mikan_api.mounted import read_ascii

DEFAULT_DATABASE = "sqlite+aiosqlite:////var/lib/mikan/mikan.db"
MIN_RETENTION = timedelta(hours=48)
"""Twice as long as Telegram, the most patient of all, keeps what it could not deliver."""
TELEGRAM_URL, TELEGRAM_FILE_URL = "https://api.telegram.org/bot", "https://api.telegram.org/file/bot"


@dataclass(frozen=True, slots=True)
class TelegramConfig:
    """A Telegram bot. The library appends the token to both addresses."""

    token: str
    base_url: str = TELEGRAM_URL
    base_file_url: str = TELEGRAM_FILE_URL

    def __repr__(self) -> str:
        """Without the token."""
        return f"TelegramConfig(base_url={self.base_url!r}, base_file_url={self.base_file_url!r})"


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that the process is told from outside, but for the settings."""

    namespace: str
    offices_namespace: str
    settings_dir: Path
    keys_dir: Path
    """Token keys that are accepted."""
    listen: Listen
    log_level: str
    database_url: str
    spool_dir: Path
    console_listen: Listen | None
    console_token: str
    """Empty only without a console."""
    lease: bool
    """Whether to take the Lease before anything else."""
    kubeconfig: str | None
    """For use outside a cluster."""
    pod_name: str
    drain_seconds: float
    """How long a shutdown waits for runs under way."""
    retention_seconds: float = MIN_RETENTION.total_seconds()
    """How long finished runs, messages and what was sent are remembered."""
    telegram: TelegramConfig | None = None

    def __repr__(self) -> str:
        """Without keys, tokens and the database's password."""
        return f"Config(namespace={self.namespace!r}, offices_namespace={self.offices_namespace!r})"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Config":
        """Read the configuration and the token files that it names.

        Raises:
            ConfigError: something is missing or wrong; one line that names it.
        """
        env = Environment(environ)
        console = env.listen_unless_empty("MIKAN_CONSOLE_LISTEN", "127.0.0.1:8081")
        token_file = env.path("MIKAN_CONSOLE_TOKEN_FILE", "/etc/mikan/console/token")
        return cls(
            namespace=env.required("MIKAN_NAMESPACE"),
            offices_namespace=env.required("MIKAN_OFFICES_NAMESPACE"),
            settings_dir=env.path("MIKAN_SETTINGS_DIR", "/etc/mikan/settings"),
            keys_dir=env.path("MIKAN_KEYS_DIR", "/etc/mikan/keys"),
            listen=env.listen(),
            log_level=env.log_level(),
            database_url=env.text("MIKAN_DATABASE_URL", DEFAULT_DATABASE),
            spool_dir=env.path("MIKAN_SPOOL_DIR", "/var/lib/mikan/spool"),
            console_listen=console,
            console_token=read_console_token(token_file) if console else "",
            lease=env.text("MIKAN_LEASE") == "1",
            drain_seconds=env.duration("MIKAN_DRAIN", "25s").total_seconds(),
            kubeconfig=env.text("KUBECONFIG") or None,
            pod_name=env.text("MIKAN_POD_NAME", env.text("HOSTNAME", "gateway")),
            retention_seconds=_retention(env).total_seconds(),
            telegram=_telegram(env),
        )


def _retention(env: Environment) -> timedelta:
    found = env.duration("MIKAN_RETENTION", "720h")
    if found < MIN_RETENTION:
        raise ConfigError("MIKAN_RETENTION must be at least 48h: what is forgotten sooner could be delivered again")
    return found


def _telegram(env: Environment) -> TelegramConfig | None:
    """The bot, where a token file is named; the token comes from there only."""
    file = env.text("MIKAN_TELEGRAM_TOKEN_FILE")
    if not file:
        return None
    return TelegramConfig(
        read_telegram_token(Path(file)),
        env.url("MIKAN_TELEGRAM_BASE_URL", TELEGRAM_URL),
        env.url("MIKAN_TELEGRAM_BASE_FILE_URL", TELEGRAM_FILE_URL),
    )


def read_telegram_token(file: Path) -> str:
    """The token that @BotFather gave.

    Raises:
        ConfigError: no file, or something else in it.
    """
    token = read_ascii(file, "MIKAN_TELEGRAM_TOKEN_FILE")
    if not re.fullmatch(r"[0-9]{6,20}:[A-Za-z0-9_-]{30,100}", token):
        raise ConfigError(f"MIKAN_TELEGRAM_TOKEN_FILE: {file} holds no bot token (<digits>:<letters, digits, _ and ->)")
    return token


MIN_CONSOLE_TOKEN = 16


def read_console_token(file: Path) -> str:
    """The bearer token of the console.

    Raises:
        ConfigError: no file, or a token that is empty, too short or not printable ASCII.
    """
    token = read_ascii(file, "MIKAN_CONSOLE_TOKEN_FILE")
    if len(token) < MIN_CONSOLE_TOKEN or not token.isprintable() or " " in token:
        raise ConfigError(f"MIKAN_CONSOLE_TOKEN_FILE: {file} needs at least {MIN_CONSOLE_TOKEN} printable characters")
    return token
