"""Text from outside, made harmless for a terminal and for a directory."""

import re
import unicodedata
from pathlib import Path

_KEPT = {"\n", "\t"}


def printable(text: str) -> str:
    """Without control and direction characters: an answer must not be able to drive the terminal."""
    return "".join(c for c in text if c in _KEPT or unicodedata.category(c) not in {"Cc", "Cf"} or c == "\u200d")


def free_path(directory: Path, name: str) -> Path:
    """A path in ``directory`` for a file of that name which does not exist yet."""
    last = re.split(r"[/\\]", printable(name).replace("\n", " "))[-1].strip(" .") or "file"
    path = directory / last[:200]
    number = 1
    while path.exists():
        path = directory / f"{Path(last).stem[:190]}-{number}{Path(last).suffix[:20]}"
        number += 1
    return path
