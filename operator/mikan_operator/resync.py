"""Listing everything: once before anything is decided, then now and then against what watches may have missed.

Reads only. A sleeping cluster costs a few list requests every `RESYNC_SECONDS` and no write.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from mikan_operator.cache import Cache
from mikan_operator.exceptions import ApiError
from mikan_operator.intake import Intake
from mikan_operator.observed import OfficeObject, PodObject, ScheduledEventObject, SecretObject, VaultObject
from mikan_operator.reconcile.children import Children
from mikan_operator.storage.kinds import OFFICE, POD, SCHEDULED_EVENT, SECRET, VAULT, Kind, Manifest
from mikan_operator.watches import SELECTORS, Watches

RESYNC_SECONDS = 300.0
SETTLE_SECONDS = 3.0
"""After which kopf's watches have begun: what was deleted between our first listing and theirs, no watch tells."""
FIRST_RETRY_SECONDS = 2.0
GRACE_SECONDS = 10.0
"""How long a watch may lag behind a listing."""

logger = logging.getLogger(__name__)


class Lister(Protocol):
    """The part of the API that a resync reads."""

    async def list_all(self, kind: Kind, label_selector: str = "") -> list[Manifest]:
        """Read all objects of a kind."""
        ...


class Resync:
    """Keeps the cache complete."""

    def __init__(self, store: Lister, cache: Cache, intake: Intake, watches: Watches, children: Children) -> None:
        self._store = store
        self._cache = cache
        self._intake = intake
        self._watches = watches
        self._children = children

    async def first(self) -> None:
        """Fill the cache, however long the API server takes to answer, and have everything reconciled."""
        for kind in SELECTORS:
            await self._take_at_last(kind)
        self._watches.listed = True
        self._intake.enqueue_all()

    async def _take_at_last(self, kind: Kind) -> None:
        while True:
            try:
                await self.take(kind)
            except ApiError as error:
                self._watches.listing_fault = f"listing {kind.plural}: {error}"
                logger.warning("first listing failed", extra={"watch": kind.plural, "reason": str(error)})
                await asyncio.sleep(FIRST_RETRY_SECONDS)
            else:
                self._watches.listing_fault = ""
                return

    async def follow(self) -> None:
        """List again once the watches have begun, and then every few minutes, until cancelled."""
        await asyncio.sleep(SETTLE_SECONDS)
        await self._lasting(self._settle)
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            await self._lasting(self.again)

    async def _lasting(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except ApiError as error:
            logger.warning("resync failed", extra={"reason": str(error)})

    async def _settle(self) -> None:
        news = [await self.take(kind) for kind in SELECTORS]
        if any(news):
            self._intake.enqueue_all()

    async def again(self) -> None:
        """Compare with the cluster, correct the cache, and note which watch has missed something."""
        before = {kind: self._watches.count(kind) for kind in SELECTORS}
        missed = [kind for kind in SELECTORS if await self.take(kind)]
        self._children.forget_verified()
        self._intake.enqueue_all()
        if missed:
            await asyncio.sleep(GRACE_SECONDS)
        for kind in missed:
            if self._watches.count(kind) == before[kind]:
                self._watches.missed(kind)
                logger.error("watch has missed changes", extra={"watch": kind.plural})

    async def take(self, kind: Kind) -> bool:
        """Take over a listing. Returns whether it held news."""
        cache = self._cache
        if kind == OFFICE:
            known, items = cache.offices.identities(), await self._read(kind)
            return bool(cache.offices.replace(map(OfficeObject.of, items), known))
        if kind == VAULT:
            known, items = cache.vaults.identities(), await self._read(kind)
            return bool(cache.vaults.replace(map(VaultObject.of, items), known))
        if kind == SECRET:
            known, items = cache.secrets.identities(), await self._read(kind)
            return bool(cache.secrets.replace(map(SecretObject.of, items), known))
        if kind == SCHEDULED_EVENT:
            known, items = cache.scheduled_events.identities(), await self._read(kind)
            return bool(cache.scheduled_events.replace(map(ScheduledEventObject.of, items), known))
        known, items = cache.pods.identities(), await self._read(POD)
        return bool(cache.pods.replace(map(PodObject.of, items), known))

    async def _read(self, kind: Kind) -> list[Manifest]:
        return await self._store.list_all(kind, SELECTORS[kind])
