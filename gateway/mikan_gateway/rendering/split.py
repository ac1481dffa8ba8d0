"""Cutting a long text into messages."""

from collections.abc import Sequence

_BREAKS = ("\n\n", "\n", " ")


def split_text(text: str, limit: int) -> Sequence[str]:
    """Cut a text into parts of at most ``limit`` characters, preferably between paragraphs, lines or words.

    Nothing but the white space at a cut is lost; an empty text has no parts.
    """
    parts: list[str] = []
    rest = text
    while len(rest) > limit:
        cut = _cut(rest, limit)
        parts.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip("\n")
    if rest.strip():
        parts.append(rest)
    return [part for part in parts if part]


def _cut(text: str, limit: int) -> int:
    for separator in _BREAKS:
        # A break in the first half would leave a stump.
        found = text.rfind(separator, limit // 2, limit + len(separator))
        if found > 0:
            return found + len(separator)
    return limit
