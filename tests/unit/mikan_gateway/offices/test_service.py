import pytest

from gateway_cluster import AWAY, PlayedApi, manifest
from gateway_doubles import key_of
from gateway_edges import FixedSettings
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.messaging import ConversationKind, MessagingInfo, TrustModel
from mikan_gateway.exceptions import ClusterError, OfficeConflict, OfficeDeleting
from mikan_gateway.offices.activity import ActivityWriter
from mikan_gateway.offices.directory import OfficeDirectory
from mikan_gateway.offices.service import KubernetesOffices

C1 = OfficeAddress(Platform.CONSOLE, "C1")
INFO = MessagingInfo(platform=Platform.CONSOLE, trust_model=TrustModel.MEMBERSHIP, display_name="General")


@pytest.fixture
def api() -> PlayedApi:
    return PlayedApi()


@pytest.fixture
def offices(api: PlayedApi) -> KubernetesOffices:
    settings = FixedSettings()
    directory = OfficeDirectory(api, "offices", settings)
    return KubernetesOffices(api, directory, ActivityWriter(api, directory, settings))


async def test_a_new_office_is_created_by_its_key_with_its_identity_alone(
    api: PlayedApi, offices: KubernetesOffices
) -> None:
    view = await offices.ensure(C1, ConversationKind.SHARED, INFO)

    assert view.key == key_of("C1")
    assert api.objects[key_of("C1")]["spec"] == {
        "platform": "console",
        "conversationId": "C1",
        "trustModel": "membership",
        "conversationKind": "shared",
        "displayName": "General",
    }


async def test_a_known_office_costs_no_request(api: PlayedApi, offices: KubernetesOffices) -> None:
    await offices.ensure(C1, ConversationKind.DIRECT, INFO)
    await offices.ensure(C1, ConversationKind.DIRECT, INFO)

    assert api.requests == ["create"]


async def test_an_office_that_somebody_else_just_made_is_fine(api: PlayedApi, offices: KubernetesOffices) -> None:
    api.put(manifest("C1", uid="theirs"))

    assert (await offices.ensure(C1, ConversationKind.DIRECT, INFO)).uid == "theirs"
    assert api.requests == ["create", "get"]


@pytest.mark.parametrize(
    "found",
    [
        manifest("C1", spec={"conversationId": "C2"}),
        manifest("C1", spec={"platform": "slack"}),
        manifest("C1", spec={"trustModel": "open-trigger"}),
    ],
)
async def test_an_office_of_another_identity_is_never_adopted(
    api: PlayedApi, offices: KubernetesOffices, found: dict[str, dict[str, str]]
) -> None:
    found["metadata"]["name"] = key_of("C1")
    api.put(found)

    with pytest.raises(OfficeConflict):
        await offices.ensure(C1, ConversationKind.DIRECT, INFO)


async def test_an_office_on_its_way_out_is_not_used(api: PlayedApi, offices: KubernetesOffices) -> None:
    api.put(manifest("C1", metadata={"deletionTimestamp": "2026-01-02T03:04:05Z"}))

    with pytest.raises(OfficeDeleting):
        await offices.ensure(C1, ConversationKind.DIRECT, INFO)


async def test_an_api_server_that_is_away_is_an_error(api: PlayedApi, offices: KubernetesOffices) -> None:
    api.failures = [AWAY]

    with pytest.raises(ClusterError):
        await offices.ensure(C1, ConversationKind.DIRECT, INFO)
    assert api.objects == {}


async def test_a_change_is_seen_at_once(api: PlayedApi, offices: KubernetesOffices) -> None:
    await offices.ensure(C1, ConversationKind.DIRECT, INFO)
    view = await offices.change(key_of("C1"), {"llm": {"model": "a/b"}})

    assert view is not None
    assert view.llm.model == "a/b"
    view = await offices.change(key_of("C1"), {"llm": None})
    assert view is not None
    assert view.llm.model == "scripted/demo"
