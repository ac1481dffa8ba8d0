import pytest

from gateway_cluster import condition, manifest
from gateway_doubles import key_of
from mikan_api.settings import DoorPolicy, Layout, Llm, Settings, Trust
from mikan_gateway.offices.view import UnusableOffice, read_office, view_office

FULL = DoorPolicy(trust=Trust.TRUSTED, layout=Layout.FULL)


def test_absent_fields_are_the_global_settings() -> None:
    settings = Settings(llm=Llm(model="openai/x"), auto_reply=True, door_policy=FULL)
    view = view_office(read_office(manifest()), settings)

    assert (view.key, view.uid, view.token_epoch) == (key_of(), "uid-1", 0)
    assert (view.llm.model, view.auto_reply, view.door_policy) == ("openai/x", True, FULL)
    assert (view.ready, view.reason, view.message, view.agent_pod_uid) == (False, "", "", None)


def test_the_offices_own_fields_win() -> None:
    spec = {"llm": {"model": "a/b"}, "autoReply": "Disabled", "doorPolicy": {"trust": "isolated"}, "suspend": True}
    view = view_office(read_office(manifest(spec=spec)), Settings(auto_reply=True, door_policy=FULL))

    assert (view.llm.model, view.auto_reply, view.door_policy, view.suspended) == ("a/b", False, DoorPolicy(), True)


def test_the_first_fault_is_what_people_are_told() -> None:
    conditions = [
        condition("Ready", "False", "Starting", "pods are starting"),
        condition("VaultReady", "False", "SecretMissing", "Secret x does not exist"),
    ]
    view = view_office(read_office(manifest(status={"conditions": conditions})), Settings())

    assert (view.ready, view.reason, view.message) == (False, "Starting", "Secret x does not exist")
    assert view.agent_pod_uid == ""


def test_a_ready_office_has_its_agents_pod() -> None:
    status = {"conditions": [condition("Ready", "True", "Running")], "agent": {"podName": "a", "podUID": "p1"}}
    view = view_office(read_office(manifest(status=status)), Settings())

    assert (view.ready, view.reason, view.agent_pod_uid) == (True, "Running", "p1")


def test_a_policy_that_is_refused_counts_as_isolated_and_not_ready() -> None:
    found = manifest(
        spec={"trustModel": "open-trigger"}, status={"conditions": [condition("Ready", "True", "Running")]}
    )
    view = view_office(read_office(found), Settings(door_policy=FULL))

    assert (view.ready, view.reason, view.door_policy) == (False, "InvalidPolicy", DoorPolicy())
    assert "open-trigger" in view.message


@pytest.mark.parametrize(
    ("written", "epoch"),
    [("7", 7), ("x", 0), ("-1", 0), ("", 0), ("9" * 15, 10**15 - 1), ("9" * 16, 0), ("9" * 5000, 0)],
)
def test_the_token_epoch_is_an_annotation(written: str, epoch: int) -> None:
    found = manifest(metadata={"annotations": {"mikan.dev/token-epoch": written}})

    assert read_office(found).epoch == epoch


@pytest.mark.parametrize(
    "found",
    [
        manifest(name="v1-console-c2-0000000000000000"),
        manifest(spec={"platform": "irc"}),
        manifest(spec={"conversationId": ".."}),
        manifest(spec={"unknown": 1}),
    ],
)
def test_an_office_that_is_none_of_ours_is_refused(found: dict[str, object]) -> None:
    with pytest.raises(UnusableOffice):
        read_office(found)
