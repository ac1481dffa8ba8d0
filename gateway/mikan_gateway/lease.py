"""One active gateway: a coordination Lease, taken before anything starts and kept for as long as the process lives.

The times are client-go's defaults: a holder that could not renew for `RENEW_DEADLINE` must stop, and another takes over
once `DURATION` has passed without a renewal, by its own clock, so that clocks need not agree. One that ends holds on by
leases of `ENDING_DURATION`: should it be killed before it could release, its successor need not wait for long.

Where something else keeps others out for as long as the process lives (`mikan_gateway.storage.state_lock`), the Lease
only tells who is active: an API server that can't be reached ends nothing, so chats go on. And a holder that is known
to have ended is not waited out.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, CoordinationV1Api, V1Lease, V1LeaseSpec, V1ObjectMeta
from kubernetes.aio.client.exceptions import ApiException

from mikan_api.kill_points import Step, around
from mikan_gateway.ports import Health
from mikan_gateway.runtime.clock import Clock

DURATION = 15.0
RENEW_DEADLINE = 10.0
RETRY = 2.0
WAITING = 1.0
"""Seconds between two tries of who does not have it."""
ENDING_DURATION = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A foreign holder's last renewal, and when we saw it."""

    renewal: tuple[str, datetime | None]
    at: float


@dataclass(frozen=True, slots=True)
class _Pace:
    """What a holder has promised: seconds that a renewal lasts, until it must have left, and between two of them."""

    duration: float
    deadline: float
    retry: float


_STEADY = _Pace(DURATION, RENEW_DEADLINE, RETRY)
_ENDING = _Pace(ENDING_DURATION, 3.0, 1.0)


class LeaseHolder:
    """Takes and keeps a Lease."""

    def __init__(
        self,
        api: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        *,
        fenced: bool = False,
        ended: str = "",
    ) -> None:
        """Prepare.

        Args:
            api: the API server.
            namespace: where the Lease is.
            name: of the Lease.
            identity: who we are.
            clock: to wait by.
            fenced: whether nobody else can be active while this process lives, whatever becomes of the Lease.
            ended: a holder that is known not to live any more.
        """
        self._api = CoordinationV1Api(api)
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._fenced, self._ended = fenced, ended
        self._seen: _Seen | None = None
        self._renewed = float("-inf")
        self._fault = ""
        self._pace = _STEADY
        self._task: asyncio.Task[None] | None = None

    async def acquire(self) -> None:
        """Wait until it is ours."""
        while not await self._attempt():
            await self._clock.sleep(WAITING)
        logger.info("lease taken", extra={"lease": self._name})

    def keep(self, lost: Callable[[], None]) -> None:
        """Renew it in the background; call ``lost`` once if somebody else has it or, unless fenced, may have it."""
        self._task = asyncio.create_task(self._renew(lost), name="lease")

    async def hasten(self) -> None:
        """The process ends soon: promise less from now on."""
        # Before the request: it may be carried out though its answer is lost.
        self._pace = _ENDING
        await self._attempt()

    async def release(self) -> None:
        """Let another have it at once."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(self._pace.deadline):
                await self._give_up()
        except (ApiException, aiohttp.ClientError, TimeoutError, OSError) as error:
            logger.warning("lease not released", extra={"reason": type(error).__name__})

    async def _give_up(self) -> None:
        lease = await self._read()
        if lease is not None and lease.spec.holder_identity == self._identity:
            lease.spec.holder_identity = ""
            with around(Step.LEASE_WRITE):
                await self._api.replace_namespaced_lease(self._name, self._namespace, lease)

    def health(self) -> Health:
        """Whether it is ours."""
        ok = self._clock.monotonic() - self._renewed < self._pace.duration
        return Health(ok, "" if ok else self._fault or "not taken yet")

    async def _renew(self, lost: Callable[[], None]) -> None:
        while True:
            await self._clock.sleep(self._pace.retry)
            held = await self._attempt(max(self._left(), 0.0))
            if not held and (self._seen or self._left() <= 0):
                logger.error("lease lost", extra={"lease": self._name, "reason": self._fault})
                lost()
                return

    def _left(self) -> float:
        """Seconds until another one may have it."""
        return float("inf") if self._fenced else self._pace.deadline - (self._clock.monotonic() - self._renewed)

    async def _attempt(self, bound: float = RENEW_DEADLINE) -> bool:
        """One try, of at most ``bound`` seconds."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(min(bound, self._pace.deadline / 2)):
                held = await self._take(began)
        except (ApiException, aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = f"{error.status} {error.reason}" if isinstance(error, ApiException) else type(error).__name__
            self._note(f"not renewed: {reason}")
            return False
        if held:
            # From before the request: the server may have counted from then on.
            self._renewed, self._seen = began, None
            self._note("")
        return held

    def _note(self, fault: str) -> None:
        """Remember, and log once, what keeps us from renewing it."""
        if fault and fault != self._fault:
            logger.warning("lease not held", extra={"lease": self._name, "reason": fault})
        elif self._fault and not fault:
            logger.info("lease held again", extra={"lease": self._name})
        self._fault = fault

    async def _take(self, now: float) -> bool:
        lease = await self._read()
        if lease is None:
            metadata = V1ObjectMeta(name=self._name, namespace=self._namespace)
            body = V1Lease(metadata=metadata, spec=self._spec(None, 0))
            with around(Step.LEASE_WRITE):
                await self._api.create_namespaced_lease(self._namespace, body)
            return True
        spec = lease.spec or V1LeaseSpec()
        if spec.holder_identity != self._identity and not self._is_free(spec, now):
            self._note(f"another gateway is active: {spec.holder_identity}")
            return False
        changes = (spec.lease_transitions or 0) + int(spec.holder_identity != self._identity)
        lease.spec = self._spec(spec if spec.holder_identity == self._identity else None, changes)
        # The resource version that was read goes along: of two that try, the API server lets one.
        with around(Step.LEASE_WRITE):
            await self._api.replace_namespaced_lease(self._name, self._namespace, lease)
        return True

    def _is_free(self, spec: Any, now: float) -> bool:
        if spec.holder_identity in {None, "", self._ended}:
            return True
        renewal = (spec.holder_identity, spec.renew_time)
        if self._seen is None or self._seen.renewal != renewal:
            self._seen = _Seen(renewal, now)
        return now - self._seen.at > (spec.lease_duration_seconds or DURATION)

    def _spec(self, mine: Any, transitions: int) -> Any:
        now = datetime.now(UTC)
        return V1LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=int(self._pace.duration),
            acquire_time=mine.acquire_time if mine else now,
            renew_time=now,
            lease_transitions=transitions,
        )

    async def _read(self) -> Any:
        try:
            return await self._api.read_namespaced_lease(self._name, self._namespace)
        except ApiException as error:
            if error.status == 404:
                return None
            raise
