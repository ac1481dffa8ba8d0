from pathlib import Path

import pytest

from mikan_api.environment import Listen
from mikan_api.exceptions import ConfigError
from mikan_gateway.config import Config


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "token").write_text("t" * 16 + "\n")
    return {
        "MIKAN_NAMESPACE": "mikan",
        "MIKAN_OFFICES_NAMESPACE": "mikan-offices",
        "MIKAN_CONSOLE_TOKEN_FILE": str(tmp_path / "token"),
    }


def test_the_defaults_are_those_of_a_pod(environ: dict[str, str]) -> None:
    config = Config.from_environ(environ)

    assert config.listen == Listen("0.0.0.0", 8080)
    assert config.console_listen == Listen("127.0.0.1", 8081)
    assert config.console_token == "t" * 16
    assert config.database_url == "sqlite+aiosqlite:////var/lib/mikan/mikan.db"
    assert (config.lease, config.drain_seconds) == (False, 25.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MIKAN_NAMESPACE", ""),
        ("MIKAN_OFFICES_NAMESPACE", ""),
        ("MIKAN_LISTEN", "8080"),
        ("MIKAN_LISTEN", "host:http"),
        ("MIKAN_LISTEN", "host:65536"),
        ("MIKAN_CONSOLE_LISTEN", "nowhere"),
        ("MIKAN_LOG_LEVEL", "loud"),
        ("MIKAN_DRAIN", "soon"),
        ("MIKAN_RETENTION", "47h"),
        ("MIKAN_CONSOLE_TOKEN_FILE", "/nonexistent"),
    ],
)
def test_what_is_wrong_is_named(environ: dict[str, str], name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Config.from_environ(environ | {name: value})


@pytest.mark.parametrize("token", ["", "short", "t" * 15, "with spaces in between", "t" * 16 + "\x00"])
def test_the_console_does_not_start_without_a_good_token(environ: dict[str, str], token: str) -> None:
    Path(environ["MIKAN_CONSOLE_TOKEN_FILE"]).write_text(token)

    with pytest.raises(ConfigError, match="MIKAN_CONSOLE_TOKEN_FILE"):
        Config.from_environ(environ)


def test_no_console_needs_no_token(environ: dict[str, str]) -> None:
    config = Config.from_environ(environ | {"MIKAN_CONSOLE_LISTEN": "", "MIKAN_CONSOLE_TOKEN_FILE": "/nonexistent"})

    assert (config.console_listen, config.console_token) == (None, "")


def test_a_configuration_prints_no_secret(environ: dict[str, str]) -> None:
    url = "postgresql+asyncpg://mikan:pass@db/mikan"
    shown = repr(Config.from_environ(environ | {"MIKAN_DATABASE_URL": url}))

    assert "pass" not in shown
    assert "tttt" not in shown
