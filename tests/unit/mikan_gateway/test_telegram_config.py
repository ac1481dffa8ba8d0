"""The bot's token comes from a file, and shows nowhere."""

from pathlib import Path

import pytest

from mikan_api.exceptions import ConfigError
from mikan_gateway.config import Config, TelegramConfig

TOKEN = "123456789:" + "A" * 35


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "current").write_bytes(b"k" * 32)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return {
        "MIKAN_NAMESPACE": "mikan",
        "MIKAN_OFFICES_NAMESPACE": "mikan-offices",
        "MIKAN_KEYS_DIR": str(tmp_path),
        "MIKAN_CONSOLE_LISTEN": "",
        "MIKAN_TELEGRAM_TOKEN_FILE": str(tmp_path / "token"),
    }


def test_telegrams_own_server_is_the_default(environ: dict[str, str]) -> None:
    assert Config.from_environ(environ).telegram == TelegramConfig(
        TOKEN, "https://api.telegram.org/bot", "https://api.telegram.org/file/bot"
    )


def test_another_server_can_be_named(environ: dict[str, str]) -> None:
    environ["MIKAN_TELEGRAM_BASE_URL"] = "http://10.0.0.1:8081/bot"
    environ["MIKAN_TELEGRAM_BASE_FILE_URL"] = "http://10.0.0.1:8081/file/bot"

    assert Config.from_environ(environ).telegram == TelegramConfig(
        TOKEN, "http://10.0.0.1:8081/bot", "http://10.0.0.1:8081/file/bot"
    )


def test_without_a_token_file_there_is_no_bot(environ: dict[str, str]) -> None:
    del environ["MIKAN_TELEGRAM_TOKEN_FILE"]

    assert Config.from_environ(environ).telegram is None


@pytest.mark.parametrize(
    "content", ["", "no-colon-in-it", "123456789:short", f"{TOKEN} {TOKEN}", "123456789:" + "é" * 35]
)
def test_what_is_no_token_is_refused_by_the_files_name_and_not_shown(
    environ: dict[str, str], tmp_path: Path, content: str
) -> None:
    (tmp_path / "token").write_text(content)

    with pytest.raises(ConfigError, match=r"^MIKAN_TELEGRAM_TOKEN_FILE: \S+token") as refused:
        Config.from_environ(environ)

    assert not content or content not in str(refused.value)


def test_a_missing_file_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "token").unlink()

    with pytest.raises(ConfigError, match="token: No such file or directory"):
        Config.from_environ(environ)


@pytest.mark.parametrize("address", ["ftp://x/bot", "http://user:pw@x/bot", "https://x/bot?x=1", "https://x/{token}"])
def test_an_address_that_cannot_be_used_is_refused_by_name(environ: dict[str, str], address: str) -> None:
    environ["MIKAN_TELEGRAM_BASE_URL"] = address

    with pytest.raises(ConfigError, match=r"^MIKAN_TELEGRAM_BASE_URL "):
        Config.from_environ(environ)


def test_the_token_is_in_no_representation(environ: dict[str, str]) -> None:
    config = Config.from_environ(environ)

    assert TOKEN not in repr(config)
    assert TOKEN not in repr(config.telegram)
