"""A message typed in a terminal is answered by an agent in its own pod, with the office's Vault in its sandbox."""

import json
import secrets

from mikan_cluster.release import Chat, Release


def test_a_message_is_answered_with_the_output_of_a_command_that_saw_the_offices_vault(
    release: Release, chat: Chat
) -> None:
    variable, file = secrets.token_hex(8), secrets.token_hex(8)
    release.vault(
        chat.key,
        {"GREETING_TOKEN": variable, "credentials.txt": f"first line\n{file}\n"},
        files=[{"key": "credentials.txt", "path": ".config/app/credentials.txt"}],
    )

    answer = chat.say('run: echo "variable=$GREETING_TOKEN"; tail -n 1 ~/.config/app/credentials.txt')

    assert f"variable={variable}" in answer
    assert file in answer
    assert "scripted" in answer
    release.await_condition(chat.key, "True", "Running")
    table = release.kubectl("get", "offices", "-n", release.offices)
    header, row = table.splitlines()[0].split(), next(r for r in table.splitlines() if chat.key in r).split()
    assert header[:4] == ["NAME", "PLATFORM", "CONVERSATION", "DOOR"]
    assert row[1:3] == ["console", chat.conversation]
    assert "True" in row
    assert "Running" in row


def test_the_vaults_values_are_nowhere_but_in_the_sandbox(release: Release, chat: Chat) -> None:
    secret = secrets.token_hex(12)
    release.vault(chat.key, {"QUIET_TOKEN": secret})

    chat.say('run: test -n "$QUIET_TOKEN" && echo present')

    kubectl = release.kubectl
    seen = "".join(release.logs(component) for component in ("operator", "gateway", "models"))
    seen += kubectl("logs", "-n", release.offices, f"a-{chat.key}", "--all-containers")
    seen += kubectl("logs", "-n", release.offices, f"s-{chat.key}", "--all-containers")
    seen += kubectl("get", "offices,vaults.mikan.dev,pods,events,configmaps", "-n", release.offices, "-o", "yaml")
    assert secret not in seen
    assert kubectl.get("vault.mikan.dev", chat.key, "-n", release.offices)["status"]["variables"] == ["QUIET_TOKEN"]


def test_two_conversations_have_offices_and_files_of_their_own(release: Release, chat: Chat) -> None:
    other = Chat(release)
    chat.say("run: echo mine > note.txt")

    answer = other.say("run: ls; ls /workspace")

    assert "note.txt" not in answer
    assert chat.key not in answer
    assert other.key in answer


def test_the_log_and_the_session_are_records_that_the_sandbox_can_read_and_not_write(
    release: Release, chat: Chat
) -> None:
    chat.say("hello there")

    answer = chat.say(
        "run: head -n 1 log.jsonl | grep -o 'hello there'; ls sessions/*.jsonl | wc -l; "
        "echo x >> log.jsonl || echo kept"
    )

    # What the shell itself says of the failed write goes to the other stream, so it may stand before or after "kept".
    assert "hello there\n1\n" in answer
    assert "\nkept\n" in answer
    assert "log.jsonl: Read-only file system" in answer
    log = release.in_agent(chat.key, "cat", f"/workspace/{chat.key}/log.jsonl").stdout
    assert [json.loads(line)["number"] for line in log.splitlines()] == list(range(1, len(log.splitlines()) + 1))
