"""Boot configuration as every process reads it: environment variables, each named in the error about it.

A variable that is set to nothing counts as unset.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from mikan_api.durations import parse_duration
from mikan_api.exceptions import ConfigError, InvalidValue

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_URL = re.compile(r"https?://[^\s?#@{}]+")


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


@contextmanager
def naming(*names: str) -> Iterator[None]:
    """Tell of an `InvalidValue` as a `ConfigError` about these variables."""
    try:
        yield
    except InvalidValue as error:
        raise ConfigError(f"{', '.join(names)}: {error}") from None


class Environment:
    """Reads variables. Every method raises `ConfigError`, one line that names the variable, for one that is wrong."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def text(self, name: str, default: str = "") -> str:
        """The variable as it is."""
        return self._variables.get(name) or default

    def required(self, name: str) -> str:
        """The variable, which must be set."""
        value = self.text(name)
        if not value:
            raise ConfigError(f"{name} is not set")
        return value

    def path(self, name: str, default: str) -> Path:
        """A file or directory; nobody looks yet whether it exists."""
        return Path(self.text(name, default))

    def listen(self, name: str = "MIKAN_LISTEN", default: str = "0.0.0.0:8080") -> Listen:
        """An address to listen on."""
        return Listen.parse(name, self.text(name, default))

    def listen_unless_empty(self, name: str, default: str) -> Listen | None:
        """An address to listen on; the one kind of variable that says something, "no", when it is set to nothing."""
        value = self._variables.get(name, default)
        return Listen.parse(name, value) if value else None

    def log_level(self, name: str = "MIKAN_LOG_LEVEL") -> str:
        """One of `LOG_LEVELS`, written in any case."""
        level = self.text(name, "INFO").upper()
        if level not in LOG_LEVELS:
            raise ConfigError(f"{name}: {level!r} is none of {', '.join(LOG_LEVELS)}")
        return level

    def duration(self, name: str, default: str) -> timedelta:
        """A duration like ``90s``."""
        with naming(name):
            return parse_duration(self.text(name, default))

    def url(self, name: str, default: str = "") -> str:
        """A base URL; required where there is no default. The error does not repeat it: it may hold a password."""
        value = self.text(name, default) or self.required(name)
        if not _URL.fullmatch(value):
            raise ConfigError(f"{name} must be an http or https URL without credentials, query or fragment")
        return value
