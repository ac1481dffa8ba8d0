"""Bytes between agent and gateway, by HTTP beside the socket and with the same token."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol
from urllib.parse import quote

from mikan_agent.backoff import Backoff
from mikan_agent.clock import Clock
from mikan_agent.exceptions import ServiceUnreachable, TokenUnreadable, TransferFailed
from mikan_agent.http_client import HttpClient, Response
from mikan_agent.tokens import TokenSource, bearer
from mikan_api.kill_points import Step, around

TIMEOUT = 20.0
"""Seconds without a byte after which a connection counts as dead."""
ATTEMPTS = 5
Content = Callable[[], AsyncIterator[bytes]]


class Transfers(Protocol):
    """Moves bytes."""

    def attachment(self, attachment_id: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The bytes of an attachment that waits in the gateway's spool.

        Raises:
            TransferFailed: ``transient`` says whether a repeat may help.
        """

    async def upload(self, content: Content) -> str:
        """Bring bytes to the gateway and return their blob id; repeated after a cut.

        Raises:
            TransferFailed: the message says why.
        """


class HttpTransfers:
    """The gateway's HTTP side, for one office."""

    def __init__(self, office_url: str, token: TokenSource, clock: Clock, retry: Backoff | None = None) -> None:
        self._token, self._clock = token, clock
        self._retry = retry or Backoff(0.3, 5.0)
        self._client = HttpClient(office_url, TIMEOUT)

    @asynccontextmanager
    async def attachment(self, attachment_id: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of an attachment; see `Transfers`."""
        path = f"/attachments/{quote(attachment_id, safe='')}"
        async with self._translated() as headers, self._client.request("GET", path, headers) as response:
            _check(response)
            yield response.chunks()

    async def upload(self, content: Content) -> str:
        """Bring bytes to the gateway; see `Transfers`."""
        blob_id = secrets.token_hex(16)
        path = f"/blobs/{blob_id}"
        for attempt in range(ATTEMPTS):
            try:
                async with self._translated() as headers:
                    with around(Step.UPLOAD_SEND):
                        async with self._client.request("PUT", path, headers, content()) as response:
                            _check(response)
            except TransferFailed as error:
                if not error.transient or attempt + 1 == ATTEMPTS:
                    raise
                await self._clock.sleep(self._retry.delay(attempt))
            else:
                break
        return blob_id

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[dict[str, str]]:
        try:
            yield await bearer(self._token)
        except TokenUnreadable as error:
            raise TransferFailed(str(error), transient=True) from None
        except ServiceUnreachable as error:
            raise TransferFailed(f"no connection to the gateway ({error})", transient=True) from None


def _check(response: Response) -> None:
    status = response.status
    if status >= 400:
        meaning = {404: "it is not there any more", 413: "it is too large", 507: "the gateway's disk is full"}
        reason = meaning.get(status, f"HTTP {status}")
        raise TransferFailed(f"the gateway refused: {reason}", transient=status >= 500 or status in {408, 425, 429})
