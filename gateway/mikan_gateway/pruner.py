"""Forgets, in the background, what has been kept for the retention: rows, and files of offices that are gone."""

import logging
import random
from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from mikan_api.identity import OfficeKey
from mikan_api.kill_points import Step
from mikan_gateway.exceptions import StorageError
from mikan_gateway.ports import Health
from mikan_gateway.runtime.clock import Clock
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.pruning import BATCH, Prune, known_offices, prunes, up_to_date_offices
from mikan_gateway.storage.spool import SpoolDirectory

EVERY = 3600.0
"""Seconds between two rounds, give or take a tenth."""
PAUSE = 0.25
"""Seconds between two batches, which leave the disk to messages."""

logger = logging.getLogger(__name__)


class Keyed(Protocol):
    """Something that has a key."""

    @property
    def key(self) -> OfficeKey: ...


class ExistingOffices(Protocol):
    """The Offices that there are (`mikan_gateway.offices.directory.OfficeDirectory`)."""

    def __iter__(self) -> Iterator[Keyed]: ...

    def health(self) -> Health: ...


class Pruner:
    """Goes round for ever."""

    def __init__(
        self, database: Database, spool: SpoolDirectory, offices: ExistingOffices, retention: float, clock: Clock
    ) -> None:
        """``retention``: seconds."""
        self._database, self._spool, self._offices = database, spool, offices
        self._retention, self._clock = retention, clock

    async def run(self) -> None:
        """Go round until cancelled; the first round is a while after the start, when there is most to do."""
        while True:
            await self._clock.sleep(EVERY * random.uniform(0.9, 1.1))  # noqa: S311  so that restarts do not align
            try:
                removed = await self.prune()
            except StorageError as error:
                logger.warning("nothing is pruned: %s", error)
            else:
                logger.info("pruned", extra={"rows": removed})

    async def prune(self) -> int:
        """One round; how many rows went.

        Raises:
            StorageError: the database or the spool failed; what is left goes in the next round.
        """
        before = self._clock.now() - self._retention
        known = await self._database.read(known_offices)
        up_to_date = await self._database.read(up_to_date_offices)
        existing = self._existing(known)
        removed = 0
        for prune in prunes(before, known, existing):
            removed += await self._all(prune)
        await self._spool.sweep(up_to_date)
        if self._offices.health().ok:
            await self._spool.sweep_offices(existing, before)
        return removed

    def _existing(self, known: Iterable[OfficeKey]) -> Collection[OfficeKey]:
        """Where the watch does not work, every office counts as there."""
        return {one.key for one in self._offices} if self._offices.health().ok else set(known)

    async def _all(self, prune: Prune) -> int:
        removed = 0
        while True:
            batch = await self._database.write(prune, step=Step.PRUNE_COMMIT)
            removed += batch
            if batch < BATCH:
                return removed
            await self._clock.sleep(PAUSE)
