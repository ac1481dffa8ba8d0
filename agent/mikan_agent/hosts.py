"""What the gateway does for extensions and for the ``event`` tool: posts, files and runs by the clock.

The ports of `mikan_agent.extensions.ports` over `GatewayRequests`; no more than this office's conversation is in reach,
since the gateway goes by the office token alone.
"""

import asyncio
import mimetypes
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import TypeAdapter

from mikan_agent.exceptions import RequestFailed
from mikan_agent.gateway_requests import GatewayRequests
from mikan_agent.transfers import Transfers
from mikan_api.events import EventPayload, ImmediateEvent, OneShotEvent, PeriodicEvent
from mikan_api.schedules import EventEntry, EventList

if TYPE_CHECKING:
    from mikan_agent.extensions.ports import Schedule

_CHUNK = 1024 * 1024
_EVENT: TypeAdapter[ImmediateEvent | OneShotEvent | PeriodicEvent] = TypeAdapter(EventPayload)


class GatewayConversation:
    """Implements `ConversationHost`."""

    def __init__(self, requests: GatewayRequests, transfers: Transfers) -> None:
        self._requests, self._transfers = requests, transfers

    async def notify(self, text: str) -> None:
        """Post a message (GitHub Flavored Markdown), with no run.

        Raises:
            RequestFailed: the gateway refuses or does not answer.
        """
        await self._requests.ask("notify", {"text": text})

    async def react(self, message_id: str, emoji: str) -> None:
        """Put a reaction on a message of the conversation.

        Raises:
            RequestFailed: the gateway refuses or does not answer; not every platform has reactions.
        """
        await self._requests.ask("react", {"messageId": message_id, "emoji": emoji})

    async def upload(self, file: Path, title: str) -> None:
        """Send a file of this process's.

        Raises:
            RequestFailed: there is no such file, or the gateway refuses it.
            TransferFailed: its bytes did not get there.
        """
        if not await asyncio.to_thread(file.is_file):
            raise RequestFailed(f"there is no file {file.name!r}")
        blob_id = await self._transfers.upload(lambda: _chunks(file))
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        params = {"blobId": blob_id, "name": file.name, "title": title[:1_000], "mediaType": kind}
        await self._requests.ask("upload", params)


class GatewayEvents:
    """The office's scheduled events as the gateway knows them."""

    def __init__(self, requests: GatewayRequests) -> None:
        self._requests = requests

    async def list(self, owner: str = "") -> Sequence[EventEntry]:
        """Those of the conversation: an extension's own, or (``owner`` empty) the agent's and the admins'.

        Raises:
            RequestFailed: the gateway refuses or does not answer.
        """
        return EventList.model_validate(await self._requests.ask("events.list", {"owner": owner})).events

    async def put(
        self,
        name: str,
        event: ImmediateEvent | OneShotEvent | PeriodicEvent,
        owner: str = "",
        *,
        must: Literal["", "be-new", "exist"] = "",
    ) -> EventEntry:
        """Make an event, or change the one of this name; as it is then.

        Raises:
            RequestFailed: the gateway refuses or does not answer.
        """
        params = {"name": name, "owner": owner, "event": event.to_json_dict(), "must": must}
        return EventEntry.model_validate(await self._requests.ask("events.put", params))

    async def delete(self, name: str, owner: str = "") -> bool:
        """Take an event away. False: there was none.

        Raises:
            RequestFailed: the gateway refuses or does not answer.
        """
        result = await self._requests.ask("events.delete", {"name": name, "owner": owner})
        return result.get("deleted") is True


class GatewaySchedules:
    """Implements `ScheduleHost`."""

    def __init__(self, events: GatewayEvents) -> None:
        self._events = events

    async def upsert(self, owner: str, name: str, event: OneShotEvent | PeriodicEvent) -> None:
        """Set up a run, or replace the one of this name."""
        await self._events.put(name, event, owner)

    async def remove(self, owner: str, name: str) -> bool:
        """Take it away. False: there was none."""
        return await self._events.delete(name, owner)

    async def list(self, owner: str) -> "Sequence[Schedule]":
        """All of the owner's that can be read."""
        from mikan_agent.extensions.ports import Schedule

        found = [(entry.name, _EVENT.validate_python(entry.event)) for entry in await self._own(owner)]
        return [Schedule(name, event) for name, event in found if not isinstance(event, ImmediateEvent)]

    async def trigger(self, owner: str, event: ImmediateEvent) -> None:
        """Have a run begin as soon as it can."""
        await self._events.put(f"now-{secrets.token_hex(8)}", event, owner, must="be-new")

    async def _own(self, owner: str) -> Sequence[EventEntry]:
        return [entry for entry in await self._events.list(owner) if entry.own and entry.event is not None]


async def _chunks(file: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(file.open, "rb") as opened:
        while chunk := await asyncio.to_thread(opened.read, _CHUNK):
            yield chunk
