"""Text with Telegram's tags, and how it is written as HTML and cut into messages.

A text is a row of runs, each with the tags that are open over it. So cutting it anywhere between two characters leaves
parts whose tags are balanced: what is open at the cut is closed in one part and opened again in the next.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

MAX_UNITS = 4_096
"""UTF-16 units of one message, by which Telegram counts."""
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_TABLE = str.maketrans(_ESCAPES)
_BREAKS = ("\n\n", "\n", " ")


@dataclass(frozen=True, slots=True)
class Run:
    """Characters under the same tags. ``tags`` are opening tags, the outermost first."""

    text: str
    tags: tuple[str, ...] = ()


def units(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text) + sum(1 for c in text if c > "\uffff")


def clean(text: str) -> str:
    """Text that can be encoded: unpaired surrogates are replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def escape(text: str) -> str:
    """Text that reads as itself in Telegram's HTML."""
    return text.translate(_TABLE)


def closing(tag: str) -> str:
    """The end of an opening tag."""
    return f"</{tag[1:-1].partition(' ')[0]}>"


def to_html(runs: Iterable[Run]) -> str:
    """The runs as Telegram's HTML."""
    out: list[str] = []
    opened: tuple[str, ...] = ()
    for run in runs:
        out.append(_change(opened, run.tags))
        out.append(escape(run.text))
        opened = run.tags
    out.append(_change(opened, ()))
    return "".join(out)


def to_plain(runs: Iterable[Run]) -> str:
    """The text alone."""
    return "".join(run.text for run in runs)


def split_runs(runs: Sequence[Run], limit: int = MAX_UNITS) -> list[list[Run]]:
    """Cut into parts of at most ``limit`` UTF-16 units *of HTML*, preferably between paragraphs, lines or words.

    Telegram counts after it has read the tags; counted before, a part fits by either reading. Only white space at a
    cut is lost. A tag must be much shorter than ``limit``.
    """
    rest = deque(run for run in runs if run.text)
    parts: list[list[Run]] = []
    while rest:
        part = _stripped(_take(rest, limit))
        if part:
            parts.append(part)
    return parts


def _change(opened: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    shared = 0
    while shared < min(len(opened), len(wanted)) and opened[shared] == wanted[shared]:
        shared += 1
    ends = "".join(closing(tag) for tag in reversed(opened[shared:]))
    return ends + "".join(wanted[shared:])


def _take(rest: "deque[Run]", limit: int) -> list[Run]:
    """Remove from ``rest`` the longest beginning that fits, back to a good place for a cut."""
    taken: list[Run] = []
    used = 0
    opened: tuple[str, ...] = ()
    while rest:
        run = rest.popleft()
        used += units(_change(opened, run.tags))
        opened = run.tags
        room = limit - used - units(_change(opened, ()))
        fits = _fitting(run.text, room)
        if fits < len(run.text):
            _put_back(rest, run, fits)
            if fits > 0:
                taken.append(replace(run, text=run.text[:fits]))
            return _cut_back(taken, rest)
        taken.append(run)
        used += units(escape(run.text))
    return taken


def _fitting(text: str, room: int) -> int:
    """How many characters of a text fit, escaped, into so many units."""
    for index, character in enumerate(text):
        room -= len(_ESCAPES.get(character, character)) + (character > "\uffff")
        if room < 0:
            return index
    return len(text)


def _cut_back(taken: list[Run], rest: "deque[Run]") -> list[Run]:
    plain = to_plain(taken)
    cut = len(plain)
    # What follows decides too: a part may end right before a break.
    following = plain + (rest[0].text[:2] if rest else "")
    for separator in _BREAKS:
        # A break in the first half would leave a stump.
        found = following.rfind(separator, len(plain) // 2, len(plain) + len(separator))
        if found > 0:
            cut = min(found + len(separator), len(plain))
            break
    left = len(plain) - cut
    while left > 0:
        last = taken.pop()
        if len(last.text) > left:
            taken.append(replace(last, text=last.text[:-left]))
            _put_back(rest, last, len(last.text) - left)
            break
        rest.appendleft(last)
        left -= len(last.text)
    _drop_newlines(rest)
    return taken


def _put_back(rest: "deque[Run]", run: Run, start: int) -> None:
    """Put the end of a run back; joined again where it was cut before."""
    if rest and rest[0].tags == run.tags:
        following = rest.popleft()
        rest.appendleft(replace(run, text=run.text[start:] + following.text))
    else:
        rest.appendleft(replace(run, text=run.text[start:]))


def _drop_newlines(rest: "deque[Run]") -> None:
    while rest:
        text = rest[0].text.lstrip("\n")
        run = rest.popleft()
        if text:
            rest.appendleft(replace(run, text=text))
            return


def _stripped(part: list[Run]) -> list[Run]:
    """Without white space at the end, which Telegram drops; nothing if there is nothing else."""
    while part:
        last = part.pop()
        text = last.text.rstrip()
        if text:
            part.append(replace(last, text=text))
            return part
    return part
