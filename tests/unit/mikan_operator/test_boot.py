"""Configuration and mounted files: a missing or wrong one is named in one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mikan_api.environment import Listen
from mikan_api.exceptions import ConfigError
from mikan_operator import __main__ as entry
from mikan_operator.config import Config
from mikan_operator.exceptions import LeaseLost
from mikan_operator.inputs import mounted_inputs, read_inputs
from mikan_operator.installation import read_installation
from mikan_operator_testing.live import write_inputs

ENVIRON = {"MIKAN_NAMESPACE": "mikan", "MIKAN_OFFICES_NAMESPACE": "mikan-offices"}


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    write_inputs(tmp_path, "registry.test/helper:1", idleTimeout="5m")
    return tmp_path


def test_defaults() -> None:
    config = Config.from_environ(ENVIRON)

    assert config.settings_dir == Path("/etc/mikan/settings")
    assert config.keys_dir == Path("/etc/mikan/keys")
    assert config.installation_file == Path("/etc/mikan/operator/operator.json")
    assert config.listen == Listen("0.0.0.0", 8080)
    assert config.log_level == "INFO"


@pytest.mark.parametrize("name", ENVIRON)
def test_a_missing_variable_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} is not set$"):
        Config.from_environ({key: value for key, value in ENVIRON.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MIKAN_LISTEN", "8080", "MIKAN_LISTEN: '8080' is not host:port"),
        ("MIKAN_LISTEN", "[::]:99999", "MIKAN_LISTEN: '[::]:99999' is not host:port"),
        ("MIKAN_LOG_LEVEL", "loud", "MIKAN_LOG_LEVEL: 'LOUD' is none of DEBUG, INFO, WARNING, ERROR"),
    ],
)
def test_a_wrong_variable_is_named(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Config.from_environ(ENVIRON | {name: value})

    assert str(refused.value) == message


def test_the_process_names_the_fault_and_exits_2() -> None:
    done = subprocess.run([sys.executable, "-m", "mikan_operator"], env={}, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr == "MIKAN_NAMESPACE is not set\n"


def end_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> list[list[str]]:
    """Have the operator end with an error; the command lines that it then began anew with."""
    begun: list[list[str]] = []

    async def run(_config: Config) -> None:
        raise error

    def execv(_program: str, arguments: list[str]) -> None:
        begun.append(arguments)

    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(entry, "run", run)
    monkeypatch.setattr(os, "execv", execv)
    return begun


def test_without_the_lease_it_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = end_with(monkeypatch, ExceptionGroup("all", [LeaseLost("lost"), ValueError("while ending")]))
    entry.main()

    assert begun == [sys.orig_argv]


def test_a_fault_of_its_own_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = end_with(monkeypatch, ExceptionGroup("all", [ValueError("ours")]))

    with pytest.raises(ExceptionGroup):
        entry.main()
    assert begun == []


def test_an_installation_is_closed(mounted: Path) -> None:
    file = mounted / "operator.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"favourite": 1}))

    with pytest.raises(ConfigError, match="favourite"):
        read_installation(file)


def test_a_missing_installation_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^MIKAN_OPERATOR_CONFIG: .*operator\.json: No such file"):
        read_installation(tmp_path / "operator.json")


def test_a_short_key_is_refused_and_not_shown(mounted: Path) -> None:
    (mounted / "keys" / "models").write_bytes(b"hunter2")

    with pytest.raises(ConfigError, match="models holds fewer than 32 bytes") as refused:
        read_inputs(mounted / "settings", mounted / "keys")

    assert "hunter2" not in str(refused.value)


def test_inputs_do_not_show_keys(mounted: Path) -> None:
    inputs = read_inputs(mounted / "settings", mounted / "keys")

    assert repr(inputs.keys.gateway)[2:-1] not in repr(inputs)


async def test_changed_settings_are_taken_over(mounted: Path) -> None:
    inputs = mounted_inputs(mounted / "settings", mounted / "keys")
    assert await inputs.refresh() is False

    (mounted / "settings" / "overrides.json").write_text('{"idleTimeout": "7m"}')

    assert await inputs.refresh() is True
    assert inputs.current.settings.idle_timeout == "7m"


async def test_unusable_settings_leave_the_last_good_ones_in_force(mounted: Path) -> None:
    inputs = mounted_inputs(mounted / "settings", mounted / "keys")

    (mounted / "settings" / "settings.json").write_text('{"idleTimeout": "soon"}')
    assert await inputs.refresh() is False

    assert inputs.current.settings.idle_timeout == "5m"
    assert "idleTimeout" in inputs.fault
    (mounted / "settings" / "settings.json").write_text('{"idleTimeout": "9m"}')
    assert await inputs.refresh() is True
    assert inputs.fault == ""


async def test_a_new_key_is_taken_over(mounted: Path) -> None:
    inputs = mounted_inputs(mounted / "settings", mounted / "keys")

    (mounted / "keys" / "gateway").write_bytes(b"n" * 40)

    assert await inputs.refresh() is True
    assert inputs.current.keys.gateway == b"n" * 40
