"""The board: open follow-ups in one file, replaced as a whole."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class FollowUp:
    """Something that is still open."""

    number: int
    title: str
    who: str
    due: str
    """ISO date, or empty."""


class Board:
    """All follow-ups of a conversation. Its methods block; an agent has one process, so nobody else writes."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "board.json"

    def open(self) -> list[FollowUp]:
        """By number."""
        return self._read()[1]

    def add(self, title: str, who: str, due: str) -> FollowUp:
        """Note one more. Numbers are never used again."""
        last, still_open = self._read()
        made = FollowUp(last + 1, title, who, due)
        self._write(made.number, [*still_open, made])
        return made

    def close(self, number: int) -> FollowUp | None:
        """Take one off the board; ``None``: it is not on it."""
        last, still_open = self._read()
        closed = next((one for one in still_open if one.number == number), None)
        if closed is not None:
            self._write(last, [one for one in still_open if one is not closed])
        return closed

    def _read(self) -> tuple[int, list[FollowUp]]:
        """The last number that was used, and what is open."""
        if not self._file.exists():
            return 0, []
        document = json.loads(self._file.read_text())
        return document["last"], [FollowUp(**one) for one in document["open"]]

    def _write(self, last: int, still_open: list[FollowUp]) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps({"last": last, "open": [asdict(one) for one in still_open]}))
        os.replace(new, self._file)


def shown(follow_ups: list[FollowUp]) -> str:
    """A list for people and models."""
    if not follow_ups:
        return "Nothing is open."
    lines = [f"{one.number}. {one.title}" + _about(one) for one in follow_ups]
    return "\n".join(lines)


def _about(one: FollowUp) -> str:
    parts = [one.who, f"due {one.due}" if one.due else ""]
    told = ", ".join(part for part in parts if part)
    return f" ({told})" if told else ""
