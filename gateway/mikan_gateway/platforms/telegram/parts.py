"""A message as it is sent: what the log reads, and what Telegram gets."""

from collections.abc import Mapping, Sequence

from mikan_gateway.platforms.telegram.markdown import read_markdown
from mikan_gateway.platforms.telegram.rich_text import MAX_UNITS, Run, clean, split_runs, to_html, to_plain

MAX_GFM = 400_000
"""Characters that are looked at: more than as many messages as an answer may take."""
MAX_FORMATTED = 60_000
"""Characters of a text that is formatted. A longer one is shown as it was written: a hostile one could take seconds to
read, and everybody would wait."""


class Part(str):
    """One message. As a string it is readable text: the GFM itself where one message holds all of it."""

    html: str
    plain: str

    def __new__(cls, text: str, runs: Sequence[Run]) -> "Part":
        part = super().__new__(cls, text)
        part.html = to_html(runs)
        part.plain = to_plain(runs)
        return part


def split_markdown(text: str, names: Mapping[str, str] | None = None, limit: int = MAX_UNITS) -> list[Part]:
    """Convert GFM, then cut it into messages; none for a text with nothing to see."""
    whole = clean(text[:MAX_GFM])
    runs = read_markdown(whole, names) if len(whole) <= MAX_FORMATTED else [Run(whole)]
    pieces = split_runs(runs, limit)
    if len(pieces) == 1:
        return [Part(text, pieces[0])]
    return [Part(to_plain(piece), piece) for piece in pieces]


def as_part(text: str, names: Mapping[str, str] | None = None) -> Part:
    """One message of a text; what `split_markdown` gave stays as it is, another text is cut at the limit."""
    if isinstance(text, Part):
        return text
    found = split_markdown(text, names)
    return found[0] if found else Part(text, [Run(text)])
