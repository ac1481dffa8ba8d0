"""Figures and how they are shown. A benchmark states; it never passes or fails."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Target:
    """What a figure must be (architecture): at most, or at least, ``value`` in the figure's unit."""

    value: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.value if self.at_least else value <= self.value

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.value:.3g}"


@dataclass(frozen=True)
class Figure:
    """One number, with what it cannot be better than.

    Attributes:
        name: unique; ``group, what, statistic``.
        floors: other ways to do the same or a part of it, measured in this run, in this figure's unit.
        own: the part of ``value`` that ours is, where the target is about that part alone.
    """

    name: str
    value: float
    unit: str
    floors: Mapping[str, float] = field(default_factory=dict)
    target: Target | None = None
    own: float | None = None

    @property
    def judged(self) -> float:
        """What the target is about."""
        return self.value if self.own is None else self.own

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self.name, "value": round(self.value, 3), "unit": self.unit}
        shown["floors"] = {name: round(floor, 3) for name, floor in self.floors.items()}
        if self.own is not None:
            shown["own"] = round(self.own, 3)
        if self.target is not None:
            shown["target"] = str(self.target)
            shown["met"] = self.target.met(self.judged)
        return shown


def p50(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many in a hundred do not exceed; the greatest of too few."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def p99(values: Sequence[float]) -> float:
    """The value that one in a hundred exceeds; the greatest of fewer."""
    return percentile(values, 99)


def table(figures: Sequence[Figure]) -> str:
    """The figures for people: a floor below its figure."""
    width = max(len(name) for figure in figures for name in (figure.name, *(f"  {f}" for f in figure.floors)))
    lines = [f"{'':<{width}} {'measured':>10} {'ours':>10}        {'target':>8}"]
    for figure in figures:
        own = "" if figure.own is None else f"{figure.own:.2f}"
        target = "" if figure.target is None else f"{figure.target!s:>8} {_word(figure, figure.target)}"
        lines.append(f"{figure.name:<{width}} {figure.value:>10.2f} {own:>10} {figure.unit:<6} {target}".rstrip())
        for name, floor in figure.floors.items():
            lines.append(f"{'  ' + name:<{width}} {floor:>10.2f} {'':>10} {figure.unit}")
    return "\n".join(lines)


def _word(figure: Figure, target: Target) -> str:
    return "met" if target.met(figure.judged) else "MISSED"
