"""JSON as a model writes it. Python's reader also takes NaN, Infinity and 1e999, which JSON and sessions have not."""

import json
import math
from typing import Never

from pydantic import JsonValue


def read_json(text: str) -> JsonValue:
    """Read a text that is one JSON value.

    Raises:
        ValueError: it is none, or holds a number that JSON can't carry.
        RecursionError: it is nested too deeply.
    """
    value: JsonValue = _decoder.decode(text)
    return value


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _refused(text: str) -> Never:
    raise ValueError(f"{text} is no JSON value")


_decoder = json.JSONDecoder(parse_float=_finite, parse_constant=_refused)
