"""Markdown files that begin with a YAML header between two ``---`` lines: skills and subagent profiles."""

from typing import Any

MAX_HEADER = 8 * 1024
"""Characters."""
MAX_BRACKETS = 200
"""Opening ones: each that is not closed makes PyYAML slower for all that follows."""


class InvalidFrontMatter(ValueError):
    """The header is missing or can't be read; the message says why, for whoever wrote the file."""


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Header and body of a file. What the header holds is for the caller to check.

    Raises:
        InvalidFrontMatter
    """
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    if not lines or lines[0].strip() != "---":
        raise InvalidFrontMatter("it does not begin with a line '---'")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    if end is None:
        raise InvalidFrontMatter("its header has no closing line '---'")
    header = "".join(lines[1:end])
    if len(header) > MAX_HEADER:
        raise InvalidFrontMatter(f"its header is longer than {MAX_HEADER} characters")
    if header.count("[") + header.count("{") > MAX_BRACKETS:
        raise InvalidFrontMatter(f"its header has more than {MAX_BRACKETS} opening brackets")
    return _parse(header), "".join(lines[end + 1 :]).strip("\n")


def _parse(header: str) -> dict[str, Any]:
    import yaml  # not needed by most runs

    try:
        # Anchors could make a small header huge.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(header, yaml.SafeLoader)):
            raise InvalidFrontMatter("its header uses YAML aliases, which are not read")
        value = yaml.safe_load(header)
    except InvalidFrontMatter:
        raise
    except Exception as error:  # noqa: BLE001  PyYAML raises what it meets: IndexError for an empty !!int
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 2})" if mark is not None else ""
        reason = getattr(error, "problem", None) or type(error).__name__
        raise InvalidFrontMatter(f"its header is not YAML: {reason}{where}") from None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidFrontMatter("its header is not a list of 'name: value' lines")
    return value
