"""Durations as Kubernetes users write them: ``90s``, ``15m``, ``1h30m``."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from mikan_api.exceptions import InvalidDuration

DURATION_PATTERN = r"^([0-9]{1,9}(ms|s|m|h))+$"
MAX_DURATION = timedelta(days=36_500)
"""What is longer counts as this: as good as for ever, and a date can still be reckoned from it."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(value: str) -> timedelta:
    """Parse a duration; at most `MAX_DURATION`.

    Raises:
        InvalidDuration: the message names the value and gives an example.
    """
    if not re.fullmatch(DURATION_PATTERN, value):
        raise InvalidDuration(f"{value!r} is not a duration like 90s, 15m or 1h30m")
    parts = re.findall(r"([0-9]+)(ms|s|m|h)", value)
    return min(timedelta(seconds=sum(int(n) * _UNITS[unit] for n, unit in parts)), MAX_DURATION)


def _checked(value: str) -> str:
    parse_duration(value)
    return value


Duration = Annotated[str, Field(pattern=DURATION_PATTERN, max_length=32), AfterValidator(_checked)]
"""A pydantic field type that keeps the string as written."""
