"""Whether requests can be served, part by part, for ``/readyz``."""

from collections.abc import Mapping
from dataclasses import dataclass

from mikan_gateway.models.metrics import Metrics

OK = "ok"


@dataclass(frozen=True, slots=True)
class Part:
    """One part. A fault of a part that is ``needed`` means that nothing can be served."""

    fault: str = ""
    needed: bool = True


@dataclass(frozen=True, slots=True)
class Health:
    """What ``/readyz`` says."""

    ready: bool
    parts: Mapping[str, str]


def assess(parts: Mapping[str, Part], metrics: Metrics) -> Health:
    """Sum up, and show each part's state as a metric."""
    for name, part in parts.items():
        metrics.fault.labels(name).set(bool(part.fault))
    ready = not any(part.fault and part.needed for part in parts.values())
    return Health(ready, {name: part.fault or OK for name, part in parts.items()})
