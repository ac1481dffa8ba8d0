"""Scheduled events of agents as objects of a real API server."""

from collections.abc import Callable

import pytest
from kubernetes.aio.client import ApiClient

from mikan_api import names
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.messaging import ConversationKind, MessagingInfo, TrustModel
from mikan_gateway.events.scheduled_event_api import ScheduledEventApi
from mikan_gateway.exceptions import ClusterConflict, ClusterNotFound, ClusterRefused
from mikan_gateway.offices.api import OfficeApi
from mikan_gateway.offices.service import build_office

ODD = r"a,b=c d!é"
"""Characters that mean something in a field selector."""


def manifest(name: str, conversation: str, uid: str = "", **spec: str) -> dict[str, object]:
    metadata: dict[str, object] = {"name": name}
    if uid:
        key = OfficeAddress(Platform.CONSOLE, conversation).key
        reference = {"apiVersion": names.API_VERSION, "kind": "Office", "name": key, "uid": uid}
        metadata["ownerReferences"] = [reference]
    fields = {"type": "immediate", "platform": "console", "conversationId": conversation, "text": "t"} | spec
    return {"apiVersion": names.API_VERSION, "kind": "ScheduledEvent", "metadata": metadata, "spec": fields}


@pytest.fixture
def name(conversation: str) -> str:
    """A name that no other test uses."""
    return conversation.lower()


@pytest.mark.parametrize("odd", ["", ODD])
async def test_those_of_one_conversation_are_found(
    api: ApiClient, namespace: str, conversation: str, name: str, odd: str
) -> None:
    events = ScheduledEventApi(api, namespace)
    await events.create(manifest(name, conversation + odd))
    await events.create(manifest(f"{name}-2", f"{conversation}-2"))
    await events.create(manifest(f"{name}-3", conversation + odd, platform="telegram"))
    found = await events.list(OfficeAddress(Platform.CONSOLE, conversation + odd))
    assert [item["metadata"]["name"] for item in found] == [name]


async def test_an_event_is_made_changed_and_deleted(
    api: ApiClient, namespace: str, conversation: str, name: str
) -> None:
    events = ScheduledEventApi(api, namespace)
    made = await events.create(manifest(name, conversation, type="one-shot", at="2026-03-02T09:00:00Z"))
    with pytest.raises(ClusterConflict):
        await events.create(manifest(name, conversation))
    spec = {"type": "periodic", "at": None, "schedule": "0 9 * * *", "timezone": "UTC"}
    metadata = {"resourceVersion": made["metadata"]["resourceVersion"], "uid": made["metadata"]["uid"]}
    changed = await events.patch(name, {"metadata": metadata, "spec": spec})
    assert {k: v for k, v in changed["spec"].items() if k in spec} == {k: v for k, v in spec.items() if v}
    with pytest.raises(ClusterConflict):
        await events.patch(name, {"metadata": metadata, "spec": {"text": "late"}})
    with pytest.raises(ClusterRefused, match="schedule belongs to type periodic"):
        await events.patch(name, {"spec": {"schedule": None}})
    with pytest.raises(ClusterConflict):
        await events.delete(name, "another-uid")
    await events.delete(name, made["metadata"]["uid"])
    with pytest.raises(ClusterNotFound):
        await events.get(name)


async def test_an_event_goes_with_its_office(
    api: ApiClient, namespace: str, kubectl: Callable[..., str], conversation: str, name: str
) -> None:
    address = OfficeAddress(Platform.CONSOLE, conversation)
    info = MessagingInfo(platform=Platform.CONSOLE, trust_model=TrustModel.MEMBERSHIP)
    office = await OfficeApi(api, namespace).create(build_office(address, ConversationKind.DIRECT, info))
    events = ScheduledEventApi(api, namespace)
    await events.create(manifest(name, conversation, office["metadata"]["uid"]))
    kubectl("delete", "office", address.key, "-n", namespace)
    kubectl("wait", "--for=delete", f"sev/{name}", "-n", namespace, "--timeout=30s")
    assert await events.list(address) == []
