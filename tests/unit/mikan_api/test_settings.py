"""The settings document, and what holds for an office."""

from datetime import timedelta

import pytest

from mikan_api.effective import InvalidPolicy, effective_office
from mikan_api.exceptions import InvalidSettings
from mikan_api.identity import Platform
from mikan_api.messaging import ConversationKind, TrustModel
from mikan_api.resources import OfficeDoorPolicy, OfficeResources, OfficeSandbox, OfficeSpec
from mikan_api.settings import Budgets, Layout, Settings, merge_leaves, parse_settings


def spec(**fields: object) -> OfficeSpec:
    base = {"platform": Platform.SLACK, "conversation_id": "C1", "trust_model": TrustModel.MEMBERSHIP}
    return OfficeSpec.model_validate({**base, **fields})


def test_an_empty_document_works() -> None:
    settings = parse_settings("{}")

    assert (settings.door_policy.trust, settings.door_policy.layout) == ("isolated", "conversation")
    assert settings.idle_timeout == "15m"
    assert settings.sandbox.mode == "image:mikan-sandbox"


def test_overrides_replace_single_leaves() -> None:
    merged = merge_leaves({"llm": {"model": "a/b", "thinkingLevel": "low"}}, {"llm": {"model": "c/d"}})

    assert merged == {"llm": {"model": "c/d", "thinkingLevel": "low"}}


def test_an_override_of_null_restores_the_default() -> None:
    assert parse_settings('{"idleTimeout": "5m"}', '{"idleTimeout": null}').idle_timeout == "15m"


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ('{"idleTimeout": "secret-value"}', "idleTimeout"),
        ('{"doorPolicy": {"layout": "full"}}', "doorPolicy"),
        ('{"favourite": "secret-value"}', "favourite"),
        ("[]", "JSON object"),
        ("{", "not JSON"),
    ],
)
def test_a_wrong_document_names_the_field_and_shows_no_value(document: str, named: str) -> None:
    with pytest.raises(InvalidSettings, match=named) as refused:
        parse_settings(document)

    assert "secret-value" not in str(refused.value)


def test_an_offices_spec_wins_over_the_settings() -> None:
    settings = Settings.model_validate({"budgets": {"modelCalls": 5, "duration": "1m"}, "idleTimeout": "10m"})
    office = spec(
        door_policy=OfficeDoorPolicy(trust="trusted", layout="full"), budgets=Budgets(model_calls=9), idle_timeout="90s"
    )

    effective = effective_office(office, settings)

    assert effective.door_policy.layout is Layout.FULL
    assert effective.door_policy_source == "Office"
    assert (effective.budgets.model_calls, effective.budgets.duration) == (9, "1m")
    assert effective.idle_timeout == timedelta(seconds=90)


@pytest.mark.parametrize(
    ("own", "model", "thinking"),
    [
        ({"thinkingLevel": "high"}, "a/b", "high"),
        ({"model": "c/d"}, "c/d", "low"),
        ({"model": "c/d", "thinkingLevel": "max"}, "c/d", "max"),
        ({}, "a/b", "low"),
    ],
)
def test_model_and_thinking_level_come_from_the_office_each_by_itself(
    own: dict[str, str], model: str, thinking: str
) -> None:
    settings = Settings.model_validate({"llm": {"model": "a/b", "thinkingLevel": "low"}})

    llm = effective_office(spec(llm=own), settings).llm

    assert (llm.model, llm.thinking_level) == (model, thinking)


@pytest.mark.parametrize(
    ("own", "limits"),
    [
        (None, ("1", "512Mi")),
        (OfficeSandbox(boost=True), ("4", "4Gi")),
        (OfficeSandbox(resources=OfficeResources(memory_limit="1Gi")), ("1", "1Gi")),
        (OfficeSandbox(boost=True, resources=OfficeResources(memory_limit="8Gi")), ("4", "8Gi")),
    ],
)
def test_each_limit_of_a_sandbox_falls_back_by_itself(own: OfficeSandbox | None, limits: tuple[str, str]) -> None:
    settings = Settings.model_validate({"sandbox": {"boost": {"cpuLimit": "4", "memoryLimit": "4Gi"}}})

    resources = effective_office(spec(sandbox=own), settings).sandbox_resources

    assert (resources.cpu_limit, resources.memory_limit) == limits


def test_variables_of_the_office_win_over_the_settings() -> None:
    settings = Settings.model_validate({"sandbox": {"env": {"A": "1", "B": "1"}}})

    effective = effective_office(spec(sandbox=OfficeSandbox(env={"B": "2"})), settings)

    assert effective.sandbox_env == {"A": "1", "B": "2"}


@pytest.mark.parametrize(
    ("fields", "settings", "message"),
    [
        (
            {"trust_model": TrustModel.OPEN_TRIGGER},
            {"doorPolicy": {"trust": "trusted", "layout": "full"}},
            "open-trigger",
        ),
        ({"conversation_kind": ConversationKind.SHARED}, {"sandbox": {"mode": "host"}}, "host is refused"),
        ({"sandbox": {"mode": "container:x"}}, {}, "refused for isolated offices"),
        ({"sandbox": {"mode": "gondolin:other"}}, {}, "'default' only"),
    ],
)
def test_what_both_together_refuse(fields: dict[str, object], settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidPolicy, match=message):
        effective_office(spec(**fields), Settings.model_validate(settings))
