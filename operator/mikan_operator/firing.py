"""The gateway, asked to take what is due: many firings at once in one request, a few requests at a time.

At nine o'clock thousands of events are due at the same instant. One request for each would be a commit of the gateway's
for each; so whatever has come while a request was under way goes with the next one.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

import aiohttp
from pydantic import ValidationError

from mikan_api.firings import MAX_BATCH, PATH, Firing, FiringAnswer, FiringBatch, FiringResult
from mikan_api.kill_points import Step, around
from mikan_api.tokens import sign_request
from mikan_operator.exceptions import GatewayUnavailable

REQUEST_SECONDS = 30.0
SENDERS = 2
MAX_CHARACTERS = 1_000_000
"""Of texts in one request."""

Waiting = tuple[Firing, asyncio.Future[FiringResult]]
Batch = list[Waiting]

logger = logging.getLogger(__name__)


class GatewayFirings:
    """Delivers firings. Asks for the key each time, so a rotation needs no restart."""

    def __init__(self, gateway_url: str, key: Callable[[], bytes], senders: int = SENDERS) -> None:
        self._url = f"{gateway_url.rstrip('/')}{PATH}"
        self._key, self._free = key, senders
        self._waiting: deque[Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    async def deliver(self, firing: Firing) -> FiringResult:
        """Have the gateway take a firing, or hear why it does not.

        Raises:
            GatewayUnavailable: it did not answer, or not as it should; the same firing may be sent again.
        """
        result: asyncio.Future[FiringResult] = asyncio.get_running_loop().create_future()
        self._waiting.append((firing, result))
        if self._free:
            self._free -= 1
            task = asyncio.create_task(self._send_all(), name="firings")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await result

    async def aclose(self) -> None:
        """Give up what is under way and let go of the connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _send_all(self) -> None:
        try:
            await asyncio.sleep(0)  # so that what is due at the same instant goes together
            while self._waiting:
                await self._send_some()
        finally:
            self._free += 1

    async def _send_some(self) -> None:
        batch = self._next()
        try:
            results = await self._post(tuple(firing for firing, _ in batch))
        except GatewayUnavailable as error:
            _fail(batch, str(error))
            return
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        except Exception:
            # Whoever waits must hear of it, or an event would never fire again.
            logger.exception("firings could not be sent")
            _fail(batch, "the operator could not send it; its log has the details")
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)

    def _next(self) -> Batch:
        batch = [self._waiting.popleft()]
        size = len(batch[0][0].text)
        while self._waiting and len(batch) < MAX_BATCH and size + len(self._waiting[0][0].text) <= MAX_CHARACTERS:
            batch.append(self._waiting.popleft())
            size += len(batch[-1][0].text)
        return batch

    async def _post(self, firings: tuple[Firing, ...]) -> tuple[FiringResult, ...]:
        body = FiringBatch(firings=firings).model_dump_json(by_alias=True).encode()
        headers = {"Authorization": f"Bearer {sign_request(self._key(), body)}", "Content-Type": "application/json"}
        try:
            with around(Step.FIRING_SEND):
                async with self._http().post(self._url, data=body, headers=headers) as response:
                    answer = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise GatewayUnavailable(f"the gateway does not answer ({type(error).__name__})") from None
        if response.status != 200:
            raise GatewayUnavailable(f"the gateway answers {response.status}")
        try:
            results = FiringAnswer.model_validate_json(answer).results
        except ValidationError:
            raise GatewayUnavailable("the gateway answers something that is no answer") from None
        if len(results) != len(firings):
            raise GatewayUnavailable("the gateway answers another number of results")
        return results

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, connect=5.0)
            self._session = aiohttp.ClientSession(timeout=timeout)
        return self._session


def _fail(batch: Batch, reason: str) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(GatewayUnavailable(reason))
