"""What is wrong is said where its owner looks: in the chat, kubectl describe, a command's error or a log."""

import subprocess
from pathlib import Path

import pytest

from mikan_api import names
from mikan_cluster.commands import CommandFailed
from mikan_cluster.release import Chat, Release, port_forward

ASK_WITH_TOKEN = """
import sys, urllib.error, urllib.request

url = "http://127.0.0.1:8080/agent/v1/offices/v1-console-x-0123456789abcdef/attachments/a"
request = urllib.request.Request(url, headers={"Authorization": "Bearer " + sys.argv[1]})
try:
    print(urllib.request.urlopen(request, timeout=5).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def office_manifest(name: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Office",
        "metadata": {"name": name},
        "spec": {"platform": "console", "conversationId": "x", "trustModel": "membership", **spec},
    }


def test_an_unknown_platform_is_refused_with_the_known_ones(release: Release) -> None:
    with pytest.raises(CommandFailed, match='Unsupported value: "irc": supported values: "slack"'):
        release.kubectl.apply(office_manifest("irc-office", platform="irc"), namespace=release.offices)


def test_an_office_whose_name_is_not_its_key_says_the_right_name_and_gets_no_pods(release: Release) -> None:
    wrong = release.office_key("somewhere")
    release.kubectl.apply(office_manifest(wrong, conversationId="elsewhere"), namespace=release.offices)
    try:
        release.await_condition(wrong, "False", "KeyMismatch")
        assert release.office_key("elsewhere") in release.kubectl("describe", "office", wrong, "-n", release.offices)
        assert release.pods(wrong) == []
    finally:
        release.kubectl("delete", "office", wrong, "-n", release.offices)


def test_an_office_whose_name_is_no_key_at_all_is_refused(release: Release) -> None:
    with pytest.raises(CommandFailed, match="the name is the office key"):
        release.kubectl.apply(office_manifest("some-name"), namespace=release.offices)


def test_a_vault_without_its_secret_is_told_in_the_chat_and_in_describe_and_cured_by_the_secret(
    release: Release, chat: Chat
) -> None:
    release.kubectl.apply(
        {"apiVersion": names.API_VERSION, "kind": "Vault", "metadata": {"name": chat.key}, "spec": {"scope": "office"}},
        namespace=release.offices,
    )
    waiting = subprocess.Popen(
        chat.argv('run: echo "now $LATE"', 120), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=chat.environment(),
    )  # fmt: skip
    release.await_condition(chat.key, "False", "VaultNotReady")
    described = release.kubectl("describe", "office", chat.key, "-n", release.offices)
    assert "SecretMissing" in release.kubectl("describe", "vault.mikan.dev", chat.key, "-n", release.offices)
    assert f"Secret {chat.key}" in described or f'"{chat.key}"' in described
    assert release.pods(chat.key) == []

    release.kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": chat.key, "labels": {names.LABEL_VAULT: "true"}},
            "stringData": {"LATE": "but there"},
        },
        namespace=release.offices,
    )
    shown, _ = waiting.communicate(timeout=150)

    assert waiting.returncode == 0, shown
    assert "now but there" in shown


def test_a_secret_without_the_label_is_not_mounted_and_the_label_is_named(release: Release, chat: Chat) -> None:
    release.vault(chat.key, {"TOKEN": "x"})
    release.kubectl("label", "secret", chat.key, "-n", release.offices, f"{names.LABEL_VAULT}-")

    with pytest.raises(AssertionError, match="exit"):
        chat.say("hello", timeout=20)

    described = release.kubectl("describe", "vault.mikan.dev", chat.key, "-n", release.offices)
    assert "SecretNotLabelled" in described
    assert names.LABEL_VAULT in described


def test_a_wrong_console_token_is_refused_with_the_next_step(release: Release, chat: Chat, tmp_path: Path) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("not-the-token")
    with port_forward(release.kubectl, release.namespace, f"deployment/{release.name}-gateway", 8081) as port:
        argv = [*chat.argv("hello", 10), "--url", f"http://127.0.0.1:{port}", "--token-file", str(wrong)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=chat.environment(), check=False)

    assert done.returncode != 0
    assert "does not accept this token" in done.stderr + done.stdout
    assert "not-the-token" not in done.stderr + done.stdout


@pytest.mark.parametrize("token", ["", "nonsense", "mkn1.gateway.v1-console-x-0123456789abcdef.uid.0.AAAA"])
def test_a_malformed_office_token_opens_nothing(release: Release, token: str) -> None:
    done = release.kubectl.exec(
        release.namespace, f"deployment/{release.name}-gateway", "python", "-c", ASK_WITH_TOKEN, token
    )

    assert done.stdout.strip() == "401", done.stderr


def test_a_suspended_office_says_so_in_the_chat(release: Release, chat: Chat) -> None:
    chat.say("hello")
    release.kubectl(
        "patch", "office", chat.key, "-n", release.offices, "--type=merge", "-p", '{"spec":{"suspend":true}}'
    )
    release.await_condition(chat.key, "False", "Suspended")
    waiting = subprocess.Popen(
        chat.argv("still there?", 60),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=chat.environment(),
    )

    release.kubectl(
        "patch", "office", chat.key, "-n", release.offices, "--type=merge", "-p", '{"spec":{"suspend":false}}'
    )
    shown, _ = waiting.communicate(timeout=120)

    assert waiting.returncode == 0
    assert "scripted" in shown
