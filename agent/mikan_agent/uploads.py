"""A run's files on their way into the conversation: bytes first, then the operation that names them."""

from collections.abc import AsyncIterator, Callable

from mikan_agent.harness.responder import Responder
from mikan_agent.transfers import Transfers
from mikan_api.responder import Upload


class RunUploads:
    """Sends files in one run."""

    def __init__(self, responder: Responder, transfers: Transfers) -> None:
        self._responder, self._transfers = responder, transfers

    async def upload(self, name: str, title: str, media_type: str, content: Callable[[], AsyncIterator[bytes]]) -> None:
        """Send a file.

        Raises:
            TransferFailed: the message says why.
        """
        blob_id = await self._transfers.upload(content)
        await self._responder.emit(Upload(blob_id=blob_id, name=name, title=title, media_type=media_type))
