"""One JSON object a line, as bytes: the grain of session files and of the platform log."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO, Never

from mikan_agent.records.exceptions import NotJson


class Damaged(ValueError):
    """A line that is no JSON object."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file. ``number`` counts from 1; ``content`` has no line break."""

    number: int
    offset: int
    content: bytes
    complete: bool
    """Ends with a line break on disk; only the last line of a file may lack one."""


def read_lines(file: BinaryIO) -> Iterator[Line]:
    """Stream a file's lines; an empty line counts but is left out."""
    offset = 0
    for number, raw in enumerate(file, start=1):
        complete = raw.endswith(b"\n")
        content = raw[:-1] if complete else raw
        if content.strip():
            yield Line(number, offset, content, complete)
        offset += len(raw)


def read_lines_backwards(file: BinaryIO, chunk: int = 1 << 16) -> Iterator[tuple[int, bytes, bool]]:
    """Lines from the last to the first: offset, content without line break, and whether it has one on disk."""
    end = file.seek(0, 2)
    rest, complete = b"", False
    while end > 0:
        start = max(0, end - chunk)
        file.seek(start)
        parts = (file.read(end - start) + rest).split(b"\n")
        rest, end = parts[0], start
        offset = start + sum(len(part) + 1 for part in parts)
        for part in reversed(parts[1:]):
            offset -= len(part) + 1
            if part.strip():
                yield offset, part, complete
            complete = True
    if rest.strip():
        yield 0, rest, complete


def decode(content: bytes) -> dict[str, object]:
    """Read one line.

    Raises:
        Damaged: not UTF-8, not JSON, or not an object.
    """
    try:
        value = _decoder.decode(content.decode())
    except (ValueError, RecursionError) as error:
        raise Damaged(f"not JSON: {type(error).__name__}") from None
    if not isinstance(value, dict):
        raise Damaged("not a JSON object")
    return value


def is_object(content: bytes) -> bool:
    """Whether a line is a whole JSON object."""
    try:
        decode(content)
    except Damaged:
        return False
    return True


def encode(value: Mapping[str, object]) -> bytes:
    """Write one line, line break included.

    Raises:
        NotJson: JSON cannot carry the value.
    """
    try:
        text = _encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"not a JSON value: {error}") from None
    try:
        return f"{text}\n".encode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form; escaped it survives, as JavaScript writes it too.
        return f"{_escaping_encoder.encode(value)}\n".encode()


def iso(moment: datetime) -> str:
    """A time as these files have it: UTC, milliseconds, ``Z``."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def stamp(moment: datetime) -> str:
    """A time as file names have it."""
    return re.sub(r"[:.]", "-", iso(moment))


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_escaping_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
