"""An extension's secrets: the Secret ``mikan-extension-<slug>`` of its package, mounted as a directory.

Read anew each time, so that a rotation is seen; read-only; and kept out of logs, those of the extension's own errors
included.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from mikan_agent.extensions.exceptions import ExtensionError

_NAME = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_MIN_MASKED = 4
"""Characters of a value below which masking it would only garble texts."""


class Secrets:
    """Read-only secrets by name. Has no useful ``repr``, on purpose."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, name: str) -> str | None:
        """The value as it is now; ``None`` where there is none."""
        if not _is_key(name):
            return None
        try:
            return (self._directory / name).read_text("utf-8")
        except UnicodeDecodeError:
            raise ExtensionError(f"the secret {name} is no text") from None
        except OSError:
            return None

    def list(self) -> Sequence[str]:
        """Names, sorted."""
        try:
            return sorted(file.name for file in self._directory.iterdir() if _is_key(file.name) and file.is_file())
        except OSError:
            return []

    def mask(self, text: str) -> str:
        """A text without any of the values."""
        for value in self._values():
            text = text.replace(value, "***")
        return text

    def found_in(self, text: str) -> bool:
        """Whether a text holds a value."""
        return any(value in text for value in self._values())

    def _values(self) -> Sequence[str]:
        values: set[str] = set()
        for name in self.list():
            try:
                value = self.get(name) or ""
            except ExtensionError:
                continue
            values |= {value, value.strip(), *value.splitlines()}
        return sorted((value for value in values if len(value) >= _MIN_MASKED), key=len, reverse=True)


def _is_key(name: str) -> bool:
    """A Secret's key. Names that begin with two dots are the kubelet's own."""
    return _NAME.fullmatch(name) is not None and not name.startswith("..") and name != "."
