"""What extensions have the gateway do, as requests."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from mikan_agent.exceptions import RequestFailed
from mikan_agent.gateway_requests import GatewayRequests
from mikan_agent.hosts import GatewayConversation
from mikan_agent.transfers import Content
from mikan_api.base import OpenModel
from mikan_api.wire import Reply, Request


class Gateway:
    """Notes requests and answers each at once."""

    def __init__(self) -> None:
        self.requests = GatewayRequests(self._answer)
        self.asked: list[tuple[str, dict[str, object]]] = []
        self.refusal: str | None = None

    def _answer(self, frame: OpenModel) -> None:
        assert isinstance(frame, Request)
        self.asked.append((frame.method, frame.params))
        self.requests.replied(Reply(id=frame.id, error=self.refusal))


class PlayedTransfers:
    """Takes bytes."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def attachment(self, attachment_id: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError("nothing is fetched here")

    async def upload(self, content: Content) -> str:
        self.taken.append(b"".join([piece async for piece in content()]))
        return "b1"


async def test_a_post_and_a_reaction_are_one_request_each() -> None:
    gateway = Gateway()
    conversation = GatewayConversation(gateway.requests, PlayedTransfers())
    await conversation.notify("**Done**")
    await conversation.react("m1", "👍")
    assert gateway.asked == [("notify", {"text": "**Done**"}), ("react", {"messageId": "m1", "emoji": "👍"})]


async def test_a_file_is_brought_and_then_named(tmp_path: Path) -> None:
    gateway, transfers = Gateway(), PlayedTransfers()
    conversation = GatewayConversation(gateway.requests, transfers)
    (tmp_path / "t.csv").write_bytes(b"a,b\n")
    await conversation.upload(tmp_path / "t.csv", "Table")
    assert transfers.taken == [b"a,b\n"]
    params = {"blobId": "b1", "name": "t.csv", "title": "Table", "mediaType": "text/csv"}
    assert gateway.asked == [("upload", params)]
    with pytest.raises(RequestFailed, match=r"there is no file 'none\.txt'"):
        await conversation.upload(tmp_path / "none.txt", "None")


async def test_a_refusal_is_told() -> None:
    gateway = Gateway()
    gateway.refusal = "console has no reactions here"
    with pytest.raises(RequestFailed, match="console has no reactions here"):
        await GatewayConversation(gateway.requests, PlayedTransfers()).react("m1", "👍")
    assert gateway.requests.pending() == []
