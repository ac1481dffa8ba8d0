"""The models process for one office on this machine."""

import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from mikan_api.identity import OfficeAddress, Platform
from mikan_api.tokens import OfficeClaims, issue_token

OFFICE = OfficeAddress(Platform.CONSOLE, "ext-dev-hello").key


@contextmanager
def alone(tmp_path: Path, *arguments: str) -> Iterator[tuple[httpx.Client, "subprocess.Popen[bytes]"]]:
    """The process, and a client of it with the token that it wrote."""
    token = tmp_path / "token"
    argv = [
        sys.executable,
        "-m",
        "mikan_gateway.models.alone",
        "--office",
        OFFICE,
        "--token-file",
        str(token),
        *arguments,
    ]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        url = process.stdout.readline().decode().strip()
        headers = {"Authorization": f"Bearer {token.read_text()}"}
        try:
            with httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False) as client:
                yield client, process
        finally:
            process.stdin.close()


def models(client: httpx.Client) -> list[str]:
    return [model["id"] for model in client.get("/v1/models").json()["data"]]


def test_it_serves_the_scripted_model_to_its_office_alone(tmp_path: Path) -> None:
    with alone(tmp_path) as (client, _):
        body = {"model": "scripted/demo", "messages": [{"role": "user", "content": "hello"}]}
        answer = client.post("/v1/chat/completions", json=body).json()
        assert "(scripted model)" in answer["choices"][0]["message"]["content"]
        assert models(client) == ["scripted/demo"]

        other = issue_token(b"k" * 32, "models", OfficeClaims(OFFICE, "alone", 0))
        refused = client.post("/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {other}"})
        assert refused.status_code == 401


def test_the_token_is_for_its_owner_only(tmp_path: Path) -> None:
    with alone(tmp_path):
        assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    with alone(tmp_path) as (_, process):
        assert process.stdin
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_an_upstream_is_asked_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-test")
    upstream = ("--api-base", "http://127.0.0.1:9/v1", "--key-file", str(tmp_path / "key"))

    with alone(tmp_path, *upstream) as (client, _):
        body = {"model": "given/llama", "messages": [{"role": "user", "content": "hello"}]}
        answer = client.post("/v1/chat/completions", json=body)
        assert answer.status_code in {502, 503, 504}
        assert answer.json()["error"]["code"] == "upstream_unreachable"
