from datetime import timedelta
from pathlib import Path

import pytest

from mikan_agent.config import Config
from mikan_api.exceptions import ConfigError

ENVIRON = {
    "MIKAN_OFFICE_PLATFORM": "slack",
    "MIKAN_OFFICE_CONVERSATION": "C123",
    "MIKAN_GATEWAY_URL": "http://mikan-gateway.mikan.svc:8080/",
    "MIKAN_MODELS_URL": "http://mikan-models.mikan.svc:8080",
    "MIKAN_POD_NAME": "a-v1-slack-c123-f1bbf4ab194ff2ea",
    "MIKAN_POD_UID": "uid",
    "MIKAN_NAMESPACE": "mikan-offices",
    "MIKAN_SANDBOX_MODE": "image:debian",
    "MIKAN_SANDBOX_POD": "s-v1-slack-c123-f1bbf4ab194ff2ea",
}


def test_a_complete_environment_is_read() -> None:
    config = Config.from_environ(ENVIRON)
    assert config.key == "v1-slack-c123-f1bbf4ab194ff2ea"
    assert config.gateway_url == "http://mikan-gateway.mikan.svc:8080"
    assert config.tokens == Path("/mikan/tokens")
    assert str(config.sandbox_mode) == "image:debian"
    assert config.drain == timedelta(seconds=20)


@pytest.mark.parametrize("name", sorted(ENVIRON))
def test_a_missing_variable_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Config.from_environ({k: v for k, v in ENVIRON.items() if k != name})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MIKAN_OFFICE_PLATFORM", "irc", "unknown platform 'irc'"),
        ("MIKAN_OFFICE_CONVERSATION", "a/b", "MIKAN_OFFICE_CONVERSATION"),
        ("MIKAN_GATEWAY_URL", "mikan-gateway:8080", "MIKAN_GATEWAY_URL must be an http or https URL"),
        ("MIKAN_MODELS_URL", "http://user:secret@models", "MIKAN_MODELS_URL must be .* without credentials"),
        ("MIKAN_SANDBOX_MODE", "vm:x", "MIKAN_SANDBOX_MODE: sandbox mode 'vm:x'"),
        ("MIKAN_LOG_LEVEL", "loud", "MIKAN_LOG_LEVEL: 'LOUD' is none of"),
        ("MIKAN_DRAIN", "soon", "MIKAN_DRAIN: 'soon' is not a duration"),
    ],
)
def test_a_wrong_variable_is_named_with_the_rule(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.from_environ({**ENVIRON, name: value})


def test_a_mode_without_a_pod_of_its_own_needs_none() -> None:
    environ = {k: v for k, v in ENVIRON.items() if k != "MIKAN_SANDBOX_POD"}
    assert Config.from_environ({**environ, "MIKAN_SANDBOX_MODE": "host"}).sandbox_pod == ""
