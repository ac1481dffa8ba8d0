"""One JSON object a line, as bytes: the grain of session files and of the platform log."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Never

from mikan_agent.sessions.exceptions import InvalidEntry


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


def encode(value: Mapping[str, object]) -> bytes:
    """Write one line, line break included.

    Raises:
        InvalidEntry: JSON cannot carry the value.
    """
    try:
        text = _encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEntry(f"not a JSON value: {error}") from None
    try:
        return f"{text}\n".encode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form; escaped it survives, as JavaScript writes it too.
        return f"{_escaping_encoder.encode(value)}\n".encode()


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_escaping_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
