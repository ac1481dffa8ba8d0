"""Environment and ``models.json``."""

from pathlib import Path

import pytest

from mikan_api.environment import Listen
from mikan_api.exceptions import ConfigError
from mikan_gateway.models.config import Config, parse_models_config


def test_the_environment_has_defaults_for_all_but_the_namespace() -> None:
    assert Config.from_environ({"MIKAN_OFFICES_NAMESPACE": "m-offices"}) == Config(
        offices_namespace="m-offices",
        settings_dir=Path("/etc/mikan/settings"),
        keys_dir=Path("/etc/mikan/keys"),
        models_config=Path("/etc/mikan/models/models.json"),
        models_keys_dir=Path("/etc/mikan/models-keys"),
        listen=Listen("0.0.0.0", 8080),
        log_level="INFO",
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [("MIKAN_OFFICES_NAMESPACE", ""), ("MIKAN_LISTEN", "8080"), ("MIKAN_LOG_LEVEL", "loud")],
)
def test_a_wrong_variable_is_named(variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        Config.from_environ({"MIKAN_OFFICES_NAMESPACE": "m-offices", variable: value})


def test_an_empty_document_offers_the_scripted_model() -> None:
    config = parse_models_config("{}")

    assert {name: entry.kind for name, entry in config.providers.items()} == {"scripted": "scripted"}
    assert (config.cap_usd_per_office, config.cap_window_hours) == (None, 24)


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ('{"provider": {}}', "provider: Extra inputs are not permitted"),
        ('{"providers": {"a/b": {"kind": "scripted"}}}', "String should match pattern"),
        ('{"providers": {"a": {"kind": "openai"}}}', "kind openai needs apiBase"),
        ('{"providers": {"a": {"kind": "openai", "apiBase": "x"}}}', "apiBase: String should match pattern"),
        ('{"providers": {"a": {"kind": "litellm"}}}', "litellmProvider comes with kind litellm"),
        ('{"providers": {"a": {"kind": "scripted", "keyFile": "../x"}}}', "keyFile: String should match pattern"),
        (
            '{"providers": {"a": {"kind": "scripted", "models": {"m": {"inputUsdPerMillion": 1}}}}}',
            "inputUsdPerMillion and outputUsdPerMillion come together",
        ),
        ('{"capUsdPerOffice": 0}', "capUsdPerOffice: Input should be greater than 0"),
    ],
)
def test_a_wrong_document_says_where(document: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_models_config(document)

    assert fault in str(caught.value)


def test_a_fault_does_not_quote_the_value() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_models_config('{"providers": {"a": {"kind": "openai", "apiBase": "sk-oops-a-key"}}}')

    assert "sk-oops" not in str(caught.value)
