import asyncio
from collections.abc import AsyncIterator

import pytest
from kubernetes.aio.client import ApiClient

from gateway_edges import FixedSettings
from mikan_api.identity import OfficeAddress, OfficeKey, Platform
from mikan_api.messaging import ConversationKind, MessagingInfo, TrustModel
from mikan_cluster.commands import Kubectl, eventually
from mikan_gateway.exceptions import ClusterError, ClusterNotFound, ClusterRefused, OfficeConflict
from mikan_gateway.offices.activity import ActivityWriter
from mikan_gateway.offices.api import OfficeApi, WatchExpired
from mikan_gateway.offices.directory import OfficeDirectory
from mikan_gateway.offices.service import KubernetesOffices

INFO = MessagingInfo(platform=Platform.CONSOLE, trust_model=TrustModel.MEMBERSHIP, display_name="A test")


class Cluster:
    """The gateway's side of a real API server."""

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self.api = OfficeApi(api, namespace)
        settings = FixedSettings()
        self.directory = OfficeDirectory(self.api, namespace, settings)
        self.activity = ActivityWriter(self.api, self.directory, settings)
        self.offices = KubernetesOffices(self.api, self.directory, self.activity)
        self.changed = asyncio.Event()
        self.directory.listen(lambda _: self.changed.set())

    async def until(self, key: OfficeKey, there: bool) -> None:
        """Wait until the watch has seen an office come or go."""
        async with asyncio.timeout(20):
            while (self.directory.get(key) is not None) is not there:
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
async def cluster(api: ApiClient, namespace: str) -> AsyncIterator[Cluster]:
    cluster = Cluster(api, namespace)
    cluster.directory.start()
    await cluster.directory.wait_synced()
    yield cluster
    await cluster.activity.stop()
    await cluster.directory.stop()


async def ensure(cluster: Cluster, conversation: str) -> OfficeKey:
    address = OfficeAddress(Platform.CONSOLE, conversation)
    return (await cluster.offices.ensure(address, ConversationKind.DIRECT, INFO)).key


async def test_fifty_first_messages_at_once_make_one_office(cluster: Cluster, conversation: str) -> None:
    address = OfficeAddress(Platform.CONSOLE, conversation)
    views = await asyncio.gather(*(cluster.offices.ensure(address, ConversationKind.DIRECT, INFO) for _ in range(50)))

    assert len({view.uid for view in views}) == 1


async def test_the_watch_sees_what_others_do(
    cluster: Cluster, kubectl: Kubectl, namespace: str, conversation: str
) -> None:
    key = OfficeAddress(Platform.CONSOLE, conversation).key
    spec = {"platform": "console", "conversationId": conversation, "trustModel": "membership"}
    office = {"apiVersion": "mikan.dev/v1alpha1", "kind": "Office", "metadata": {"name": key}, "spec": spec}
    await asyncio.to_thread(kubectl.apply, office, namespace=namespace)
    await cluster.until(key, True)
    await asyncio.to_thread(kubectl, "delete", "office", key, "-n", namespace)
    await cluster.until(key, False)

    assert cluster.directory.health().ok


async def test_activity_is_the_gateways_share_of_the_status(
    cluster: Cluster, kubectl: Kubectl, namespace: str, conversation: str
) -> None:
    key = await ensure(cluster, conversation)
    cluster.offices.touch(key, 2)
    await asyncio.to_thread(
        eventually,
        "the status is written",
        lambda: kubectl.get("office", key, "-n", namespace).get("status", {}).get("runningSessions") == 2,
    )

    found = await asyncio.to_thread(kubectl.get, "office", key, "-n", namespace, "--show-managed-fields")
    owners = {
        (entry["manager"], entry.get("subresource"), entry["operation"]) for entry in found["metadata"]["managedFields"]
    }
    assert ("mikan-gateway", "status", "Apply") in owners
    assert found["metadata"]["generation"] == 1


async def test_a_status_makes_no_office(cluster: Cluster, conversation: str) -> None:
    key = OfficeAddress(Platform.CONSOLE, conversation).key

    with pytest.raises(ClusterNotFound):
        await cluster.api.apply_status(key, {"runningSessions": 1})


async def test_a_model_is_switched_and_switched_back(cluster: Cluster, conversation: str) -> None:
    key = await ensure(cluster, conversation)
    switched = await cluster.offices.change(key, {"llm": {"model": "a/b", "thinkingLevel": "high"}})
    restored = await cluster.offices.change(key, {"llm": None})

    assert switched is not None
    assert switched.llm.model == "a/b"
    assert restored is not None
    assert restored.llm.model == "scripted/demo"


async def test_a_spec_that_the_schema_forbids_is_refused_with_the_servers_reason(
    cluster: Cluster, conversation: str
) -> None:
    key = await ensure(cluster, conversation)

    with pytest.raises(ClusterRefused, match="isolated implies the layout conversation"):
        await cluster.offices.change(key, {"doorPolicy": {"trust": "isolated", "layout": "full"}})


async def test_an_office_made_for_another_trust_model_is_not_adopted(cluster: Cluster, conversation: str) -> None:
    await ensure(cluster, conversation)
    other = INFO.model_copy(update={"trust_model": TrustModel.OPEN_TRIGGER})

    with pytest.raises(OfficeConflict):
        await cluster.offices.ensure(OfficeAddress(Platform.CONSOLE, conversation), ConversationKind.DIRECT, other)


async def test_a_watch_from_long_ago_says_so(cluster: Cluster) -> None:
    with pytest.raises(WatchExpired):
        async for _ in cluster.api.watch("1", 5, 5):
            pass


async def test_a_silent_watch_counts_as_dead(cluster: Cluster) -> None:
    _, version = await cluster.api.list()

    with pytest.raises(ClusterError, match="silent"):
        async for _ in cluster.api.watch(version, 10, 0.3):
            pass
