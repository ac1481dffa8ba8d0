"""What a real API server accepts and refuses of an Office: every rule and bound both ways."""

from typing import Any

import pytest

from mikan_operator.exceptions import Invalid
from mikan_operator.storage.kinds import OFFICE
from mikan_operator_testing.live import office

ACCEPTED: dict[str, dict[str, Any]] = {
    "the least": {},
    "both trust models": {"trustModel": "open-trigger"},
    "both kinds": {"conversationKind": "shared"},
    "the longest display name": {"displayName": "x" * 256},
    "trusted with conversation": {"doorPolicy": {"trust": "trusted", "layout": "conversation"}},
    "trusted with full": {"doorPolicy": {"trust": "trusted", "layout": "full"}},
    "open-trigger with shared support": {
        "trustModel": "open-trigger",
        "doorPolicy": {"trust": "trusted", "layout": "shared-support"},
    },
    "a model": {"llm": {"model": "openai/gpt-5", "thinkingLevel": "max"}},
    "an image with a registry": {"sandbox": {"mode": "image:registry.test:5000/a/b@sha256:00"}},
    "host": {"sandbox": {"mode": "host"}},
    "resources": {"sandbox": {"resources": {"cpuLimit": "500m", "memoryLimit": "1.5Gi"}}},
    "boost": {"sandbox": {"boost": True}},
    "64 variables": {"sandbox": {"env": {f"V{n}": "x" for n in range(64)}}},
    "a value of 4096 characters": {"sandbox": {"env": {"V": "x" * 4096}}},
    "budgets": {"budgets": {"tokens": 1, "costUsd": 0.01, "duration": "1h30m", "modelCalls": 1}},
    "auto-reply": {"autoReply": "Enabled"},
    "64 packages": {"packages": [f"git:{n}" for n in range(64)]},
    "a shared vault": {"vaultName": "shared-team"},
    "an idle timeout": {"idleTimeout": "90s"},
    "suspend": {"suspend": True},
    "delete data": {"dataRetention": "Delete"},
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a trust model of one's own": ({"trustModel": "everybody"}, "spec.trustModel: Unsupported value"),
    "a kind of one's own": ({"conversationKind": "group"}, "spec.conversationKind: Unsupported value"),
    "too long a display name": ({"displayName": "x" * 257}, "spec.displayName: Too long"),
    "isolated with more": ({"doorPolicy": {"layout": "full"}}, "isolated implies the layout conversation"),
    "a layout of one's own": ({"doorPolicy": {"trust": "trusted", "layout": "all"}}, "layout: Unsupported value"),
    "open-trigger with full": (
        {"trustModel": "open-trigger", "doorPolicy": {"trust": "trusted", "layout": "full"}},
        "an open-trigger conversation can't be trusted with the full layout",
    ),
    "a model without a provider": ({"llm": {"model": "gpt"}}, "spec.llm.model"),
    "a thinking level of one's own": ({"llm": {"model": "a/b", "thinkingLevel": "a lot"}}, "thinkingLevel"),
    "an unknown mode": ({"sandbox": {"mode": "docker:x"}}, "spec.sandbox.mode"),
    "a mode with a space": ({"sandbox": {"mode": "image:a b"}}, "spec.sandbox.mode"),
    "too long a mode": ({"sandbox": {"mode": "image:" + "a" * 507}}, "spec.sandbox.mode: Too long"),
    "a quantity of one's own": ({"sandbox": {"resources": {"cpuLimit": "much"}}}, "cpuLimit"),
    "65 variables": ({"sandbox": {"env": {f"V{n}": "x" for n in range(65)}}}, "spec.sandbox.env: Too many"),
    "a variable with a dash": ({"sandbox": {"env": {"A-B": "x"}}}, "every key matches"),
    "too long a value": ({"sandbox": {"env": {"V": "x" * 4097}}}, "spec.sandbox.env.V: Too long"),
    "no tokens at all": ({"budgets": {"tokens": 0}}, "spec.budgets.tokens"),
    "no cost at all": ({"budgets": {"costUsd": 0}}, "spec.budgets.costUsd"),
    "no calls at all": ({"budgets": {"modelCalls": 0}}, "spec.budgets.modelCalls"),
    "a duration without a unit": ({"budgets": {"duration": "30"}}, "spec.budgets.duration"),
    "auto-reply as a boolean": ({"autoReply": True}, "spec.autoReply"),
    "65 packages": ({"packages": ["x"] * 65}, "spec.packages: Too many"),
    "an empty package": ({"packages": [""]}, "spec.packages[0]"),
    "a vault name with capitals": ({"vaultName": "Team"}, "spec.vaultName"),
    "an idle timeout without a unit": ({"idleTimeout": "90"}, "spec.idleTimeout"),
    "another retention": ({"dataRetention": "Archive"}, "spec.dataRetention: Unsupported value"),
    "a field of one's own": ({"favourite": 1}, 'unknown field "spec.favourite"'),
}


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED)
async def test_accepted(trial: Any, spec: dict[str, Any]) -> None:
    made = await trial.create(OFFICE, office("general", **spec))

    assert spec.items() <= {**made["spec"], **spec}.items()
    assert made["spec"]["platform"] == "console"


@pytest.mark.parametrize(("spec", "message"), REFUSED.values(), ids=REFUSED)
async def test_refused(trial: Any, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as refused:
        await trial.create(OFFICE, office("general", **spec))

    assert message in str(refused.value)


@pytest.mark.parametrize("conversation", ["x" * 512, "C123", "-100200", "Ä ö", "GH_owner_repo_1", "..."])
async def test_conversation_ids_that_are_fine(trial: Any, conversation: str) -> None:
    await trial.create(OFFICE, office(conversation))


@pytest.mark.parametrize(
    "conversation", ["", ".", "..", "a:b", "a/b", "a\\b", "a\x00", "a\x1f", "a\x7f", "a\x85", "x" * 513]
)
async def test_conversation_ids_that_are_not(trial: Any, conversation: str) -> None:
    made = office("general")
    made["spec"]["conversationId"] = conversation

    with pytest.raises(Invalid, match="conversationId"):
        await trial.create(OFFICE, made)


@pytest.mark.parametrize(
    "name",
    [
        "general",
        "v1-irc-general-0123456789abcdef",
        "v1-console-general-0123456789abcde",
        "v1-console--general-0123456789abcdef",
        "v1-console-general-0123456789abcdeg",
        f"v1-console-{'x' * 33}-0123456789abcdef",
    ],
)
async def test_a_name_that_no_key_can_be_is_refused(trial: Any, name: str) -> None:
    made = office("general")
    made["metadata"]["name"] = name

    with pytest.raises(Invalid, match=r"metadata\.name"):
        await trial.create(OFFICE, made)


async def test_a_name_of_another_platform_is_refused(trial: Any) -> None:
    made = office("general")
    made["metadata"]["name"] = "v1-slack-general-0123456789abcdef"

    with pytest.raises(Invalid, match="the name is the office key"):
        await trial.create(OFFICE, made)


@pytest.mark.parametrize("field", ["platform", "conversationId", "trustModel"])
async def test_a_required_field_is_required(trial: Any, field: str) -> None:
    made = office("general")
    del made["spec"][field]

    with pytest.raises(Invalid, match=f"spec.{field}: Required value"):
        await trial.create(OFFICE, made)


async def test_an_office_without_a_spec_is_refused(trial: Any) -> None:
    made = office("general")
    del made["spec"]

    with pytest.raises(Invalid, match="spec: Required value"):
        await trial.create(OFFICE, made)


async def test_defaults_are_filled_in(trial: Any) -> None:
    made = await trial.create(OFFICE, office("general", doorPolicy={}))

    assert made["spec"] == {
        "platform": "console",
        "conversationId": "general",
        "trustModel": "membership",
        "conversationKind": "direct",
        "doorPolicy": {"trust": "isolated", "layout": "conversation"},
        "suspend": False,
        "dataRetention": "Retain",
    }


async def test_identity_is_immutable_and_everything_else_is_not(trial: Any) -> None:
    made = office("kept")
    name = made["metadata"]["name"]
    await trial.api.create(OFFICE, made)

    for field, value in (("conversationId", "other"), ("trustModel", "open-trigger")):
        with pytest.raises(Invalid, match=f"{field} is immutable"):
            await trial.merge(OFFICE, name, {"spec": {field: value}})
    with pytest.raises(Invalid, match="platform is immutable"):
        await trial.merge(OFFICE, name, {"spec": {"platform": "slack"}})
    changed = await trial.merge(OFFICE, name, {"spec": {"suspend": True, "displayName": "x"}})
    assert changed["spec"]["suspend"] is True


CONDITION = {"type": "Ready", "status": "True", "reason": "Running", "lastTransitionTime": "2026-03-01T12:00:00Z"}
STATUS_REFUSED: dict[str, dict[str, Any]] = {
    "a condition without a reason": {"conditions": [{k: v for k, v in CONDITION.items() if k != "reason"}]},
    "a condition that may be": {"conditions": [{**CONDITION, "status": "Maybe"}]},
    "a time that is none": {"conditions": [{**CONDITION, "lastTransitionTime": "noon"}]},
    "17 conditions": {"conditions": [{**CONDITION, "type": f"T{n}"} for n in range(17)]},
    "one type twice": {"conditions": [CONDITION, CONDITION]},
    "fewer than no sessions": {"runningSessions": -1},
    "an activity that is no time": {"lastActivityTime": "lately"},
    "a pod without a name": {"agent": {"podUID": "x"}},
}


@pytest.mark.parametrize("name", STATUS_REFUSED)
async def test_a_status_that_is_refused(trial: Any, name: str) -> None:
    status, made = STATUS_REFUSED[name], office(f"status: {name}".replace(":", ""))
    await trial.api.create(OFFICE, made)

    with pytest.raises(Invalid):
        await trial.merge(OFFICE, made["metadata"]["name"], {"status": status}, "status")


async def test_operator_and_gateway_share_a_status_without_touching_each_others_fields(trial: Any) -> None:
    made = office("two managers")
    name = made["metadata"]["name"]
    await trial.api.create(OFFICE, made)
    path = OFFICE.path(trial.namespace, name, "status")
    gateway = {"lastActivityTime": "2026-03-01T12:00:00Z", "runningSessions": 1}
    body = {"apiVersion": OFFICE.api_version, "kind": OFFICE.kind, "metadata": {"name": name}, "status": gateway}
    query = {"fieldManager": "mikan-gateway"}
    await trial.api._request("PATCH", path, query, body, "application/apply-patch+yaml")

    await trial.api.apply(OFFICE, name, {"status": {"conditions": [CONDITION], "llmModel": "a/b"}}, "status")
    after = await trial.api.apply(OFFICE, name, {"status": {"conditions": [CONDITION]}}, "status")

    assert after["status"] == {**gateway, "conditions": [{**CONDITION, "message": ""}]}


async def test_a_status_that_is_applied_again_changes_nothing(trial: Any) -> None:
    made = office("twice")
    name = made["metadata"]["name"]
    await trial.api.create(OFFICE, made)

    first = await trial.api.apply(OFFICE, name, {"status": {"conditions": [CONDITION]}}, "status")
    second = await trial.api.apply(OFFICE, name, {"status": {"conditions": [CONDITION]}}, "status")

    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


@pytest.mark.parametrize("field", ["spec.platform=console", "spec.conversationId=found", "spec.vaultName=shared-x"])
async def test_offices_can_be_selected_by_field(trial: Any, field: str) -> None:
    made = office("found", vaultName="shared-x")
    if made["metadata"]["name"] not in [o["metadata"]["name"] for o in await trial.api.list_all(OFFICE)]:
        await trial.api.create(OFFICE, made)

    page = await trial.api._request("GET", OFFICE.path(trial.namespace), {"fieldSelector": field})

    assert made["metadata"]["name"] in [o["metadata"]["name"] for o in page["items"]]
    missing = field.replace("console", "web").replace("found", "lost").replace("shared-x", "shared-y")
    page = await trial.api._request("GET", OFFICE.path(trial.namespace), {"fieldSelector": missing})
    assert page["items"] == []
