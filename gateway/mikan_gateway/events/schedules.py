"""An office's scheduled events, for its agent: ``events.list|put|delete`` (`mikan_api.schedules`).

The office is the one that the token names. The agent changes what it made, an extension what it made; everybody else's
of the conversation are shown to the agent and never touched.
"""

import asyncio
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakValueDictionary

from pydantic import ValidationError

from mikan_api import names
from mikan_api.events import describe
from mikan_api.identity import OfficeAddress, OfficeKey
from mikan_api.resources import ConditionType, EventSource, ScheduledEventSpec, ScheduledEventStatus
from mikan_api.schedules import MAX_EVENTS, DeleteEvent, EventEntry, EventList, ListEvents, PutEvent
from mikan_api.tokens import OfficeClaims
from mikan_gateway.events.ports import KnownOffices
from mikan_gateway.exceptions import ClusterConflict, ClusterNotFound, ClusterRefused, UserFault
from mikan_gateway.offices.api import Manifest
from mikan_gateway.offices.view import OfficeRecord
from mikan_gateway.runtime.desk import RequestMethod

OURS = (EventSource.AGENT, EventSource.EXTENSION)
MAX_TEXT_LISTED = 2_000
"""Characters of an event's text that a list of all of them shows."""


class Objects(Protocol):
    """The API server (`mikan_gateway.events.scheduled_event_api`)."""

    async def list(self, address: OfficeAddress) -> list[Manifest]: ...

    async def get(self, name: str) -> Manifest: ...

    async def create(self, manifest: Manifest) -> Manifest: ...

    async def patch(self, name: str, fields: Manifest) -> Manifest: ...

    async def delete(self, name: str, uid: str) -> None: ...


class Schedules:
    """Lists and changes scheduled events for agents."""

    def __init__(self, objects: Objects, offices: KnownOffices) -> None:
        self._objects, self._offices = objects, offices
        self._locks: WeakValueDictionary[OfficeKey, asyncio.Lock] = WeakValueDictionary()

    @property
    def methods(self) -> dict[str, RequestMethod]:
        """By name."""
        return {"events.list": self._list, "events.put": self._put, "events.delete": self._delete}

    async def _list(self, claims: OfficeClaims, _: str, params: dict[str, Any]) -> dict[str, Any]:
        owner = ListEvents.model_validate(params).owner
        found = await self._objects.list(self._office(claims).spec.address)
        entries = [_entry(item, claims.office, owner) for item in found]
        # What an extension set up is its own affair; its text may say more than the conversation should hear.
        shown = [e for e in entries if e.own or (not owner and e.source != EventSource.EXTENSION)]
        shown.sort(key=lambda entry: (not entry.own, entry.name))
        return EventList(events=tuple(shown)).to_json_dict()

    async def _put(self, claims: OfficeClaims, request_id: str, params: dict[str, Any]) -> dict[str, Any]:
        put = PutEvent.model_validate(params)
        office = self._office(claims)
        if put.event.conversation_id != office.spec.conversation_id:
            raise UserFault("an event is for its own conversation")
        async with self._locks.setdefault(claims.office, asyncio.Lock()):
            known = await self._find(claims.office, put.name, put.owner)
            if known is None:
                made = await self._create(claims, office, put, request_id)
            elif put.must == "be-new" and not _is_of(known, request_id):
                raise UserFault(f"there is an event named {put.name!r} already")
            else:
                made = await self._change(known, office, put)
        return _entry(made, claims.office, put.owner).to_json_dict()

    async def _delete(self, claims: OfficeClaims, _: str, params: dict[str, Any]) -> dict[str, Any]:
        asked = DeleteEvent.model_validate(params)
        known = await self._find(claims.office, asked.name, asked.owner)
        if known is None:
            return {"deleted": False}
        try:
            await self._objects.delete(known["metadata"]["name"], known["metadata"]["uid"])
        except (ClusterNotFound, ClusterConflict):
            return {"deleted": False}
        return {"deleted": True}

    def _office(self, claims: OfficeClaims) -> OfficeRecord:
        record = self._offices.record(claims.office)
        if record is None or record.uid != claims.uid:
            raise UserFault("this conversation's office is gone")
        return record

    async def _find(self, office: OfficeKey, name: str, owner: str) -> Manifest | None:
        """The event of a short name, if it is the asker's."""
        object_name = names.scheduled_event(office, name, owner)
        try:
            found = await self._objects.get(object_name)
        except ClusterNotFound:
            return None
        if not _is_own(found, office, owner):
            raise UserFault(f"the name {name!r} is taken by an event that somebody else made ({object_name})")
        return found

    async def _create(self, claims: OfficeClaims, office: OfficeRecord, put: PutEvent, request_id: str) -> Manifest:
        if put.must == "exist":
            raise UserFault(f"there is no event named {put.name!r}")
        mine = [item for item in await self._objects.list(office.spec.address) if _source(item) in OURS]
        if len(mine) >= MAX_EVENTS and not await self._made_room(mine, claims.office):
            raise UserFault(
                f"this conversation has {len(mine)} events, and {MAX_EVENTS} are the most; delete some first"
            )
        labels = {names.LABEL_OFFICE: claims.office} | ({names.LABEL_EXTENSION: put.owner} if put.owner else {})
        manifest = {
            "apiVersion": names.API_VERSION,
            "kind": "ScheduledEvent",
            "metadata": {
                "name": names.scheduled_event(claims.office, put.name, put.owner),
                "labels": labels,
                "annotations": {names.ANNOTATION_REQUEST: request_id},
                "ownerReferences": [
                    {"apiVersion": names.API_VERSION, "kind": "Office", "name": claims.office, "uid": claims.uid}
                ],
            },
            "spec": _spec(put, office),
        }
        try:
            return await self._objects.create(manifest)
        except ClusterConflict:
            raise UserFault(f"the event {put.name!r} was made by somebody else just now") from None
        except ClusterRefused as error:
            raise UserFault(f"the cluster does not take this event: {error}") from None

    async def _made_room(self, mine: list[Manifest], office: OfficeKey) -> bool:
        """Whether an immediate event that came to nothing could go: nobody who made one knows its name."""
        spent = [item for item in mine if _is_spent(item) and _is_own(item, office, _owner(item))]
        if not spent:
            return False
        oldest = min(spent, key=lambda item: str(item["metadata"].get("creationTimestamp", "")))
        with suppress(ClusterNotFound, ClusterConflict):
            await self._objects.delete(oldest["metadata"]["name"], oldest["metadata"]["uid"])
        return True

    async def _change(self, known: Manifest, office: OfficeRecord, put: PutEvent) -> Manifest:
        wanted = _spec(put, office)
        if wanted["text"] == known["spec"]["text"][:MAX_TEXT_LISTED]:
            wanted["text"] = known["spec"]["text"]  # put back as it was listed: it is not to change
        if {key: value for key, value in known["spec"].items() if key != "suspend"} == wanted:
            return known
        # Fields of another type of event go; what an admin set besides stays.
        gone = {field: None for field in ("at", "schedule", "timezone") if field not in wanted}
        fields = {
            "metadata": {"resourceVersion": known["metadata"]["resourceVersion"], "uid": known["metadata"]["uid"]},
            "spec": gone | wanted,
        }
        try:
            return await self._objects.patch(known["metadata"]["name"], fields)
        except (ClusterNotFound, ClusterConflict):
            raise UserFault(f"the event {put.name!r} has just fired or been changed; look again") from None
        except ClusterRefused as error:
            raise UserFault(f"the cluster does not take this event: {error}") from None


def _spec(put: PutEvent, office: OfficeRecord) -> dict[str, Any]:
    source = EventSource.EXTENSION if put.owner else EventSource.AGENT
    payload = put.event.to_json_dict()
    payload.pop("userId", None)
    return payload | {
        "platform": office.spec.platform.value,
        "conversationId": office.spec.conversation_id,
        "conversationKind": office.spec.conversation_kind.value,
        "source": source.value,
    }


def _source(manifest: Manifest) -> EventSource:
    return EventSource(manifest["spec"].get("source", EventSource.ADMIN))


def _is_own(manifest: Manifest, office: OfficeKey, owner: str) -> bool:
    labels = manifest["metadata"].get("labels") or {}
    source = EventSource.EXTENSION if owner else EventSource.AGENT
    spec = manifest["spec"]
    return (
        labels.get(names.LABEL_OFFICE) == office
        and _owner(manifest) == owner
        and _source(manifest) is source
        and OfficeAddress.parse(spec["platform"], spec["conversationId"]).key == office
    )


def _owner(manifest: Manifest) -> str:
    return str((manifest["metadata"].get("labels") or {}).get(names.LABEL_EXTENSION, ""))


def _is_spent(manifest: Manifest) -> bool:
    """Whether it was delivered, and refused: one that was taken is gone."""
    return manifest["spec"]["type"] == "immediate" and bool((manifest.get("status") or {}).get("lastDelivery"))


def _is_of(manifest: Manifest, request_id: str) -> bool:
    return (manifest["metadata"].get("annotations") or {}).get(names.ANNOTATION_REQUEST) == request_id


def _entry(manifest: Manifest, office: OfficeKey, owner: str) -> EventEntry:
    name, own = manifest["metadata"]["name"], _is_own(manifest, office, owner)
    prefix = names.scheduled_event(office, "", owner) + "."
    short = name.removeprefix(prefix) if own and name.startswith(prefix) else name
    try:
        spec = ScheduledEventSpec.model_validate(manifest["spec"])
        status = ScheduledEventStatus.model_validate(manifest.get("status") or {})
    except ValidationError as error:
        source = str(manifest["spec"].get("source", ""))
        return EventEntry(name=short, own=own, source=source, event=None, problem=describe(error)[:500])
    payload = spec.to_json_dict()
    for field in ("suspend", "source", "startingDeadlineSeconds"):
        payload.pop(field, None)
    payload["text"] = spec.text[:MAX_TEXT_LISTED]
    return EventEntry(
        name=short,
        own=own,
        source=spec.source.value,
        event=payload,
        suspended=spec.suspend,
        next_fire_time=status.next_fire_time,
        last_fire_time=status.last_fire_time,
        problem=_problem(status),
    )


def _problem(status: ScheduledEventStatus) -> str:
    ready = next((c for c in status.conditions if c.type == ConditionType.READY), None)
    if ready is None or ready.status == "True":
        return ""
    return f"{ready.reason}: {ready.message}" if ready.message else ready.reason
