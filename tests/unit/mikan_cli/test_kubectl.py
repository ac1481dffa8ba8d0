"""kubectl, played by a script that is really run."""

import asyncio
import os
from pathlib import Path

import pytest

from mikan_cli.exceptions import ClusterUnusable
from mikan_cli.kubectl import PortForward, Release, read_console_token

RELEASE = Release("mikan", "chat")


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Play":
    return Play(tmp_path / "kubectl", monkeypatch)


class Play:
    """A kubectl that does as a test says, and notes its arguments."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self._notes = path.with_name("arguments")
        monkeypatch.setenv("KUBECTL", str(path))

    def does(self, script: str) -> None:
        self._path.write_text(f'#!/bin/sh\necho "$@" >> {self._notes}\n{script}\n')
        self._path.chmod(0o755)

    @property
    def arguments(self) -> list[str]:
        return self._notes.read_text().splitlines()


async def test_the_token_is_read_from_the_releases_secret(play: Play) -> None:
    play.does("printf c2VjcmV0LXRva2Vu")

    assert await read_console_token(RELEASE) == "secret-token"
    assert play.arguments == ["--namespace chat get secret mikan-console -o jsonpath={.data.token}"]


async def test_without_a_namespace_the_contexts_one_is_used(play: Play) -> None:
    play.does("printf c2VjcmV0LXRva2Vu")
    await read_console_token(Release("other"))

    assert play.arguments == ["get secret other-console -o jsonpath={.data.token}"]


@pytest.mark.parametrize(
    ("stderr", "message", "step"),
    [
        ('Error from server (NotFound): secrets "mikan-console" not found', "there is no release", "helm list"),
        ("Error from server (Forbidden): secrets is forbidden", "you may not", "Ask an admin"),
        ("error: You must be logged in to the server (Unauthorized)", "credentials", "Log in"),
        ("The connection to the server localhost:8080 was refused", "could not", "kubectl cluster-info"),
    ],
)
async def test_what_kubectl_complains_of_comes_with_the_next_step(
    play: Play, stderr: str, message: str, step: str
) -> None:
    play.does(f"echo '{stderr}' >&2; exit 1")

    with pytest.raises(ClusterUnusable, match=message) as caught:
        await read_console_token(RELEASE)
    assert step in caught.value.next_step


@pytest.mark.parametrize("output", ["", "printf %s '%%%'", "printf '////'"])
async def test_a_secret_without_a_usable_token_is_named(play: Play, output: str) -> None:
    play.does(output or "true")

    with pytest.raises(ClusterUnusable, match="no usable key 'token'"):
        await read_console_token(RELEASE)


async def test_no_kubectl_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL", "/nonexistent/kubectl")

    with pytest.raises(ClusterUnusable, match="can't be run") as caught:
        await read_console_token(RELEASE)
    assert "--url" in caught.value.next_step


async def test_a_port_forward_is_ended_with_us(play: Play, tmp_path: Path) -> None:
    play.does(f"echo $$ > {tmp_path}/pid; echo 'Forwarding from 127.0.0.1:38291 -> 8081'; exec sleep 600")
    forward = PortForward(RELEASE)

    assert await forward.open() == "http://127.0.0.1:38291"
    pid = int(await asyncio.to_thread((tmp_path / "pid").read_text))
    await forward.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert play.arguments == ["--namespace chat port-forward --address 127.0.0.1 deployment/mikan-gateway :8081"]


async def test_a_port_forward_can_be_opened_again(play: Play) -> None:
    play.does("echo 'Forwarding from 127.0.0.1:38291 -> 8081'")
    forward = PortForward(RELEASE)
    await forward.open()

    play.does("echo 'Forwarding from 127.0.0.1:38292 -> 8081'; exec sleep 600")
    assert await forward.open() == "http://127.0.0.1:38292"
    await forward.close()


async def test_a_port_forward_that_is_refused_says_why(play: Play) -> None:
    play.does("echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1")

    with pytest.raises(ClusterUnusable, match="you may not reach the gateway's pod"):
        await PortForward(RELEASE).open()
