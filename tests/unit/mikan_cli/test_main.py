from pathlib import Path

import pytest
from typer.testing import CliRunner

from mikan_cli.main import app

RUNNER = CliRunner()


def test_an_address_without_a_token_is_refused() -> None:
    result = RUNNER.invoke(app, ["chat", "--url", "http://127.0.0.1:1", "--message", "hi"])

    assert result.exit_code == 1
    assert "--token-file" in result.stderr


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    arguments = ["chat", "--url", "http://127.0.0.1:1", "--token-file", str(tmp_path / "no"), "-m", "hi"]
    result = RUNNER.invoke(app, arguments)

    assert result.exit_code == 1
    assert f"{tmp_path / 'no'} can't be read" in result.stderr


def test_a_missing_directory_for_files_is_named_before_anything_is_sent(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["chat", "-m", "hi", "--save", str(tmp_path / "no")])

    assert result.exit_code == 1
    assert "is not a directory" in result.stderr


def test_without_kubectl_the_next_step_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL", "/nonexistent/kubectl")
    result = RUNNER.invoke(app, ["chat", "-m", "hi"])

    assert result.exit_code == 1
    assert "Install kubectl" in result.stderr


def test_help_names_every_option() -> None:
    result = RUNNER.invoke(app, ["chat", "--help"], env={"COLUMNS": "200"})

    assert result.exit_code == 0
    for option in ("--message", "--conversation", "--namespace", "--release", "--url", "--token-file", "--timeout"):
        assert option in result.output
