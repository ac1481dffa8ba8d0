"""An extension's secrets: the Secret ``mikan-extension-<slug>`` of its package, mounted as a directory.

Read anew each time, so that a rotation is seen; read-only; and kept out of logs, those of the extension's own errors
included.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, quote_plus

from mikan_agent.extensions.exceptions import ExtensionError

_NAME = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_MIN_MASKED = 4
"""Characters of a value below which masking it would only garble texts."""
_MIN_MASKED_WITHIN = 8
"""The same of a text in a value that is JSON, where not all is secret."""


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
        for form in _longest_first(form for value in self._values() for form in _forms(value)):
            text = text.replace(form, "***")
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
        return _longest_first(values)


def _longest_first(texts: Iterable[str]) -> Sequence[str]:
    return sorted({text for text in texts if len(text) >= _MIN_MASKED}, key=len, reverse=True)


def _forms(value: str) -> Iterator[str]:
    """A value as URLs, JSON and tracebacks show it, and what a value that is JSON holds."""
    for part in (value, value.strip(), *_texts_in(value)):
        yield from (part, quote(part), quote(part, safe=""), quote_plus(part), json.dumps(part)[1:-1], repr(part)[1:-1])


def _texts_in(value: str) -> Iterator[str]:
    try:
        waiting = [json.loads(value)] if value.lstrip().startswith(("{", "[")) else []
    except (ValueError, RecursionError):
        return
    while waiting:
        match waiting.pop():
            case dict() as fields:
                waiting += fields.values()
            case list() as items:
                waiting += items
            case str() as text if len(text) >= _MIN_MASKED_WITHIN:
                yield from (text, *(line for line in text.splitlines() if len(line) >= _MIN_MASKED_WITHIN))


def _is_key(name: str) -> bool:
    """A Secret's key. Names that begin with two dots are the kubelet's own."""
    return _NAME.fullmatch(name) is not None and not name.startswith("..") and name != "."
