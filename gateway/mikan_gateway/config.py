"""Boot configuration of the gateway: environment variables, read once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mikan_api.durations import parse_duration
from mikan_api.exceptions import InvalidDuration
from mikan_api.tokens import MIN_KEY_BYTES
from mikan_gateway.exceptions import ConfigError

DEFAULT_DATABASE = "sqlite+aiosqlite:////var/lib/mikan/mikan.db"
TELEGRAM_URL, TELEGRAM_FILE_URL = "https://api.telegram.org/bot", "https://api.telegram.org/file/bot"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, slots=True)
class Listen:
    """An address to listen on."""

    host: str
    port: int

    @classmethod
    def parse(cls, name: str, value: str) -> "Listen":
        """Read ``host:port``; an IPv6 host stands in brackets.

        Raises:
            ConfigError: it is none; the message names the variable.
        """
        host, colon, port = value.rpartition(":")
        if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
            raise ConfigError(f"{name}: {value!r} is not host:port")
        return cls(host.strip("[]"), int(port))


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
    """Token keys that are accepted; read again as they rotate, so only looked at here."""
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
    telegram: TelegramConfig | None = None

    def __repr__(self) -> str:
        """Without keys, tokens and the database's password."""
        return f"Config(namespace={self.namespace!r}, offices_namespace={self.offices_namespace!r})"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Config":
        """Read the configuration and the key and token files that it names.

        Raises:
            ConfigError: something is missing or wrong; one line that names it.
        """
        console = environ.get("MIKAN_CONSOLE_LISTEN", "127.0.0.1:8081")
        token_file = Path(environ.get("MIKAN_CONSOLE_TOKEN_FILE", "/etc/mikan/console/token"))
        level = environ.get("MIKAN_LOG_LEVEL", "INFO").upper()
        if level not in _LEVELS:
            raise ConfigError(f"MIKAN_LOG_LEVEL: {level!r} is none of {', '.join(_LEVELS)}")
        keys_dir = Path(environ.get("MIKAN_KEYS_DIR", "/etc/mikan/keys"))
        read_keys(keys_dir)
        return cls(
            namespace=_required(environ, "MIKAN_NAMESPACE"),
            offices_namespace=_required(environ, "MIKAN_OFFICES_NAMESPACE"),
            settings_dir=Path(environ.get("MIKAN_SETTINGS_DIR", "/etc/mikan/settings")),
            keys_dir=keys_dir,
            listen=Listen.parse("MIKAN_LISTEN", environ.get("MIKAN_LISTEN", "0.0.0.0:8080")),
            log_level=level,
            database_url=environ.get("MIKAN_DATABASE_URL", DEFAULT_DATABASE),
            spool_dir=Path(environ.get("MIKAN_SPOOL_DIR", "/var/lib/mikan/spool")),
            console_listen=Listen.parse("MIKAN_CONSOLE_LISTEN", console) if console else None,
            console_token=read_console_token(token_file) if console else "",
            lease=environ.get("MIKAN_LEASE", "") == "1",
            drain_seconds=_seconds(environ, "MIKAN_DRAIN", "25s"),
            kubeconfig=environ.get("KUBECONFIG") or None,
            pod_name=environ.get("MIKAN_POD_NAME", "") or environ.get("HOSTNAME", "") or "gateway",
            telegram=_telegram(environ),
        )


def _telegram(environ: Mapping[str, str]) -> TelegramConfig | None:
    """The bot, where a token file is named; the token comes from there only."""
    file = environ.get("MIKAN_TELEGRAM_TOKEN_FILE", "")
    if not file:
        return None
    return TelegramConfig(
        read_telegram_token(Path(file)),
        _address(environ, "MIKAN_TELEGRAM_BASE_URL", TELEGRAM_URL),
        _address(environ, "MIKAN_TELEGRAM_BASE_FILE_URL", TELEGRAM_FILE_URL),
    )


def _address(environ: Mapping[str, str], name: str, default: str) -> str:
    value = environ.get(name, "") or default
    if not re.fullmatch(r"https?://[^\s?#@{}]+", value):
        raise ConfigError(f"{name}: not an http or https address without credentials, query or fragment")
    return value


def read_telegram_token(file: Path) -> str:
    """The token that @BotFather gave.

    Raises:
        ConfigError: no file, or something else in it.
    """
    try:
        token = file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigError(f"MIKAN_TELEGRAM_TOKEN_FILE: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"MIKAN_TELEGRAM_TOKEN_FILE: {file} is not ASCII") from None
    if not re.fullmatch(r"[0-9]{6,20}:[A-Za-z0-9_-]{30,100}", token):
        raise ConfigError(f"MIKAN_TELEGRAM_TOKEN_FILE: {file} holds no bot token (<digits>:<letters, digits, _ and ->)")
    return token


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise ConfigError(f"{name} is not set")
    return value


def _seconds(environ: Mapping[str, str], name: str, default: str) -> float:
    try:
        return parse_duration(environ.get(name, "") or default).total_seconds()
    except InvalidDuration as error:
        raise ConfigError(f"{name}: {error}") from None


def read_keys(directory: Path) -> tuple[bytes, ...]:
    """The token keys of a directory: ``current``, and during a rotation ``previous``.

    Raises:
        ConfigError: no current key, or one that is too short.
    """
    keys = []
    for name in ("current", "previous"):
        file = directory / name
        try:
            key = file.read_bytes()
        except FileNotFoundError:
            if name == "current":
                raise ConfigError(f"MIKAN_KEYS_DIR: {file} does not exist") from None
            continue
        except OSError as error:
            raise ConfigError(f"MIKAN_KEYS_DIR: {file}: {error.strerror}") from None
        if len(key) < MIN_KEY_BYTES:
            raise ConfigError(f"MIKAN_KEYS_DIR: {file} holds fewer than {MIN_KEY_BYTES} bytes")
        keys.append(key)
    return tuple(keys)


MIN_CONSOLE_TOKEN = 16


def read_console_token(file: Path) -> str:
    """The bearer token of the console.

    Raises:
        ConfigError: no file, or a token that is empty, too short or not printable ASCII.
    """
    try:
        token = file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigError(f"MIKAN_CONSOLE_TOKEN_FILE: {file}: {error.strerror}; the console needs a token") from None
    except UnicodeDecodeError:
        raise ConfigError(f"MIKAN_CONSOLE_TOKEN_FILE: {file} is not ASCII") from None
    if len(token) < MIN_CONSOLE_TOKEN or not token.isprintable() or " " in token:
        raise ConfigError(f"MIKAN_CONSOLE_TOKEN_FILE: {file} needs at least {MIN_CONSOLE_TOKEN} printable characters")
    return token
