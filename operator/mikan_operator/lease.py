"""One operator acts: a coordination Lease, taken before anything else and given up by leaving.

Expiry is judged by how long the record has not changed while we looked, never by comparing two machines' clocks
(as client-go does).
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from mikan_operator import metrics
from mikan_operator.exceptions import AlreadyExists, ApiError, Conflict, LeaseLost, NotFound
from mikan_operator.storage.kinds import LEASE, Kind, Manifest

LEASE_NAME = "mikan-operator"
DURATION = 15.0
RENEW_DEADLINE = 10.0
"""Shorter than the duration: who can't renew leaves before anybody else may act."""
PERIOD = 2.0
TRY = RENEW_DEADLINE / 2
"""Seconds of one try: a server that does not answer must not cost all of them."""

logger = logging.getLogger(__name__)


class LeaseStore(Protocol):
    """What the Lease needs of the API."""

    async def get(self, kind: Kind, name: str) -> Manifest:
        """Read an object."""
        ...

    async def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Make an object."""
        ...

    async def replace(self, kind: Kind, name: str, manifest: Manifest) -> Manifest:
        """Write an object; its resourceVersion is the precondition."""
        ...


class Lease:
    """The right to act."""

    def __init__(self, store: LeaseStore, identity: str, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._identity = identity
        self._clock = clock
        self._seen: tuple[str, float] = ("", 0.0)
        """Last resourceVersion of somebody else's Lease, and when we first saw it (loop time)."""
        self.fault = ""
        """Why the API server could not be asked the last time."""

    async def acquire(self) -> None:
        """Wait until the Lease is ours."""
        while not await self._try(TRY):  # noqa: ASYNC110  the Lease is elsewhere: there is no event to wait for
            await asyncio.sleep(PERIOD)
        metrics.LEADER.set(1)
        logger.info("lease taken", extra={"identity": self._identity})

    async def hold(self, recovered: Callable[[], None] = lambda: None) -> None:
        """Renew until cancelled; ``recovered`` is called when that worked after it had not.

        Raises:
            LeaseLost: somebody else has it, or it could not be renewed in time.
        """
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            await asyncio.sleep(PERIOD)
            began, failed = loop.time(), bool(self.fault)
            if await self._try(min(TRY, max(RENEW_DEADLINE - (began - renewed), 0.0))):
                renewed = began  # from before the request: the server may have counted from then on
                if failed:
                    recovered()
            elif loop.time() - renewed >= RENEW_DEADLINE or self._seen[0]:
                metrics.LEADER.set(0)
                raise LeaseLost("the Lease mikan-operator is lost")

    async def release(self) -> None:
        """Give it up, so that a successor need not wait for it to expire."""
        try:
            async with asyncio.timeout(TRY):
                await self._give_up()
        except (ApiError, TimeoutError) as error:
            logger.warning("lease not released", extra={"reason": str(error) or type(error).__name__})

    async def _give_up(self) -> None:
        lease = await self._store.get(LEASE, LEASE_NAME)
        if lease["spec"].get("holderIdentity") == self._identity:
            lease["spec"].update(holderIdentity="", renewTime=self._now())
            await self._store.replace(LEASE, LEASE_NAME, lease)

    async def _try(self, seconds: float) -> bool:
        fault, held = "", False
        try:
            async with asyncio.timeout(seconds):
                held = await self._take()
        except (AlreadyExists, Conflict):
            held = False
        except TimeoutError:
            fault = "the API server does not answer"
        except ApiError as error:
            fault = str(error)
        if fault and not self.fault:
            logger.warning("lease not held", extra={"reason": fault})
        self.fault = fault
        return held

    async def _take(self) -> bool:
        try:
            lease = await self._store.get(LEASE, LEASE_NAME)
        except NotFound:
            await self._store.create(LEASE, self._fresh())
            return True
        spec = lease.setdefault("spec", {})
        holder = spec.get("holderIdentity") or ""
        if holder not in {"", self._identity} and not self._expired(lease):
            return False
        if holder != self._identity:
            spec.update(acquireTime=self._now(), leaseTransitions=spec.get("leaseTransitions", 0) + 1)
        spec.update(holderIdentity=self._identity, renewTime=self._now(), leaseDurationSeconds=int(DURATION))
        await self._store.replace(LEASE, LEASE_NAME, lease)
        self._seen = ("", 0.0)
        return True

    def _expired(self, lease: Manifest) -> bool:
        version, now = lease["metadata"]["resourceVersion"], asyncio.get_running_loop().time()
        if version != self._seen[0]:
            self._seen = (version, now)
        return now - self._seen[1] > float(lease["spec"].get("leaseDurationSeconds") or DURATION)

    def _fresh(self) -> Manifest:
        now = self._now()
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(DURATION),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": {"name": LEASE_NAME}, "spec": spec}

    def _now(self) -> str:
        return self._clock().isoformat(timespec="microseconds")
