"""What is watched, and whether the watches still tell the truth.

Kopf reconnects its watches by itself (timeouts, 410, silence). But an answer that it takes for final ends a watch for
good, and nothing in kopf says so. So this looks whether each watch's task still runs, and remembers what a listing
found that a watch should have told: such a watch is stale until it delivers again.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mikan_api import names
from mikan_operator import metrics
from mikan_operator.storage.kinds import OFFICE, POD, SCHEDULED_EVENT, SECRET, VAULT, Kind

SELECTORS: dict[Kind, str] = {
    OFFICE: "",
    VAULT: "",
    SECRET: f"{names.LABEL_VAULT}=true",
    POD: f"{names.LABEL_MANAGED_BY}={names.OPERATOR}",
    SCHEDULED_EVENT: "",
}
"""Every watched kind with its label selector. A Secret without the label is none of the operator's business."""

DEAD_AFTER = 2
"""So many listings in a row that a watch has missed changes of: only a restart is left to try."""


def running_tasks() -> list[str]:
    """Names of everything that runs on this loop; kopf names a watch's task after its resource."""
    return [task.get_name() for task in asyncio.all_tasks()]


@dataclass(slots=True)
class _Watch:
    delivered: int = 0
    strikes: int = 0
    started: bool = False
    ended: bool = False


@dataclass(slots=True)
class Watches:
    """The health of each watch."""

    wall_clock: Callable[[], float]
    tasks: Callable[[], Iterable[str]] = running_tasks
    listed: bool = False
    """Whether the first listing is complete."""
    listing_fault: str = ""
    """Why it is not yet."""
    _watches: dict[str, _Watch] = field(default_factory=lambda: {kind.plural: _Watch() for kind in SELECTORS})

    def delivered(self, kind: Kind) -> None:
        """A watch brought something."""
        watch = self._watches[kind.plural]
        watch.delivered, watch.strikes = watch.delivered + 1, 0
        metrics.LAST_EVENT.labels(kind.plural).set(self.wall_clock())
        metrics.STALE_WATCHES.labels(kind.plural).set(0)

    def count(self, kind: Kind) -> int:
        """How many changes a watch has brought so far."""
        return self._watches[kind.plural].delivered

    def missed(self, kind: Kind) -> None:
        """A listing showed what the watch did not."""
        self._watches[kind.plural].strikes += 1
        metrics.STALE_WATCHES.labels(kind.plural).set(1)

    def report(self) -> dict[str, bool]:
        """Watch -> whether it is believed to be complete."""
        self._look()
        return {n: watch.strikes == 0 and watch.started and not watch.ended for n, watch in self._watches.items()}

    @property
    def dead(self) -> bool:
        """Whether some watch is beyond what reconnecting cures."""
        self._look()
        return any(watch.ended or watch.strikes >= DEAD_AFTER for watch in self._watches.values())

    def _look(self) -> None:
        tasks = list(self.tasks())
        for name, watch in self._watches.items():
            running = any(task.startswith(f"watcher for {name}.") for task in tasks)
            watch.started = watch.started or running
            watch.ended = watch.started and not running
