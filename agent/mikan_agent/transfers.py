"""Bytes between agent and gateway, by HTTP beside the socket and with the same token."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from mikan_agent.backoff import Backoff
from mikan_agent.clock import Clock
from mikan_agent.exceptions import TokenUnreadable, TransferFailed
from mikan_agent.tokens import TokenSource, bearer
from mikan_api.kill_points import Step, around

if TYPE_CHECKING:
    import httpx

TIMEOUT = 60.0
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
        self._url, self._token, self._clock = office_url, token, clock
        self._retry = retry or Backoff(0.3, 5.0)
        self._client: httpx.AsyncClient | None = None

    @asynccontextmanager
    async def attachment(self, attachment_id: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of an attachment; see `Transfers`."""
        url = f"{self._url}/attachments/{quote(attachment_id, safe='')}"
        async with self._translated() as headers, self._http().stream("GET", url, headers=headers) as response:
            _check(response)
            yield response.aiter_bytes()

    async def upload(self, content: Content) -> str:
        """Bring bytes to the gateway; see `Transfers`."""
        blob_id = secrets.token_hex(16)
        url = f"{self._url}/blobs/{blob_id}"
        for attempt in range(ATTEMPTS):
            try:
                async with self._translated() as headers:
                    with around(Step.UPLOAD_SEND):
                        _check(await self._http().put(url, content=content(), headers=headers))
            except TransferFailed as error:
                if not error.transient or attempt + 1 == ATTEMPTS:
                    raise
                await self._clock.sleep(self._retry.delay(attempt))
            else:
                break
        return blob_id

    async def aclose(self) -> None:
        """Let go of the connections."""
        if self._client is not None:
            await self._client.aclose()

    def _http(self) -> "httpx.AsyncClient":
        import httpx

        from mikan_agent.http_client import open_client

        if self._client is None:
            self._client = open_client(self._url, httpx.Timeout(TIMEOUT))
        return self._client

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[dict[str, str]]:
        import httpx

        try:
            yield await bearer(self._token)
        except TokenUnreadable as error:
            raise TransferFailed(str(error), transient=True) from None
        except httpx.HTTPError as error:
            raise TransferFailed(f"no connection to the gateway ({type(error).__name__})", transient=True) from None


def _check(response: "httpx.Response") -> None:
    status = response.status_code
    if status >= 400:
        meaning = {404: "it is not there any more", 413: "it is too large", 507: "the gateway's disk is full"}
        reason = meaning.get(status, f"HTTP {status}")
        raise TransferFailed(f"the gateway refused: {reason}", transient=status >= 500 or status in {408, 425, 429})
