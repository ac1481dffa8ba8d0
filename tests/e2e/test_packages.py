"""Packages on a real cluster: `mikan ext`, a volume that two namespaces share, and what each pod sees of it."""

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mikan_api import names
from mikan_cluster.commands import Helm, Kubectl, eventually
from mikan_cluster.release import REPOSITORY, Chat, Release

SKILL = "---\nname: greetings\ndescription: How to greet.\n---\nSay hello from {baseDir}.\n"
EXTENSION = """
from dataclasses import replace
from mikan_agent.extensions.api import map_text

def activate(api):
    def answer(call):
        path = api.paths.shared_data_dir / "visits"
        visits = int(path.read_text()) + 1 if path.exists() else 1
        path.write_text(str(visits))
        return f"ANSWER, secrets: {list(api.secrets.list())}, model {api.context.model}"

    def redact(event):
        value = api.secrets.get("TOKEN") or "no-such-token"
        return replace(event.result, content=map_text(event.result.content, lambda text: text.replace(value, "***")))

    api.register_command("NAME", "Greets", answer)
    api.on("tool_result", redact)
"""


@pytest.fixture(scope="module")
def release(kubectl: Kubectl, helm: Helm) -> Iterator[Release]:
    """A release whose gateway has a claim on the storage of the packages volume."""
    made = Release(kubectl, helm, name="ext", namespace="ext")
    made.install()
    _share_packages_volume(made)
    made.install("--set", "packages.gatewayClaim=packages-gateway")
    yield made
    made.remove()
    kubectl("delete", "pv", "ext-packages-gateway", "--ignore-not-found", "--wait=false")


def _share_packages_volume(release: Release) -> None:
    """A second PersistentVolume on the same directory, and a claim on it in the release's namespace."""
    kubectl = release.kubectl
    claim = kubectl.get("pvc", f"{release.name}-packages", "-n", release.offices)
    spec: dict[str, Any] = kubectl.get("pv", claim["spec"]["volumeName"])["spec"]
    shared = {"capacity": spec["capacity"], "accessModes": spec["accessModes"]}
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "ext-packages-gateway"},
            "spec": {
                **shared,
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "packages-gateway",
                "local": spec["local"],
                "nodeAffinity": spec["nodeAffinity"],
                "claimRef": {"namespace": release.namespace, "name": "packages-gateway"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "packages-gateway", "namespace": release.namespace},
            "spec": {
                "accessModes": spec["accessModes"],
                "storageClassName": "packages-gateway",
                "resources": {"requests": shared["capacity"]},
            },
        },
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of a name and a command that no other test has: what is shared between offices outlives a test."""
    directory = tmp_path / f"greeter-{secrets.token_hex(2)}"
    (directory / "skills" / "greetings").mkdir(parents=True)
    (directory / "skills" / "greetings" / "SKILL.md").write_text(SKILL)
    write_extension(directory, "visit {visits}")
    return directory


def write_extension(directory: Path, answer: str) -> None:
    """An extension that answers ``/<name of the package>``."""
    code = EXTENSION.replace("NAME", directory.name).replace("ANSWER", answer)
    (directory / "extension.py").write_text(code)


@pytest.fixture
def chat(release: Release) -> Iterator[Chat]:
    conversation = Chat(release)
    yield conversation
    release.kubectl("delete", "office", conversation.key, "-n", release.offices, "--ignore-not-found", "--wait=false")


def ext(chat: Chat, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The real ``mikan ext``, for the conversation's release."""
    argv = [str(Path(sys.executable).with_name("mikan")), "ext", *arguments]
    argv += ["--namespace", chat.release.namespace, "--release", chat.release.name]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=chat.environment(), timeout=120)


def installed(chat: Chat, *arguments: str) -> str:
    done = ext(chat, "install", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def agent_uid(chat: Chat) -> str:
    pod = chat.release.kubectl.get("pod", names.agent_pod(chat.key), "-n", chat.release.offices)
    return str(pod["metadata"]["uid"])


def replaced(chat: Chat, before: str) -> None:
    """Wait until the office has another agent pod."""
    eventually("another agent pod", lambda: agent_uid(chat) != before, seconds=90)
    chat.release.await_condition(chat.key, "True", "Running", seconds=90)


@pytest.mark.timeout(600)
def test_a_directory_is_installed_for_one_office_and_each_pod_sees_its_part(chat: Chat, package: Path) -> None:
    release, kubectl = chat.release, chat.release.kubectl
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"mikan-extension-{package.name}", "namespace": release.offices},
            "stringData": {"TOKEN": "hunter2-hunter2"},
        }
    )
    chat.say("run: true")
    before = agent_uid(chat)

    said = installed(chat, str(package), "--conversation", chat.conversation)
    assert f"extensions: {package.name}; skills: greetings" in said
    assert f"its Secret, if it wants one: mikan-extension-{package.name} in {release.offices}" in said
    replaced(chat, before)

    assert "visit 1, secrets: ['TOKEN'], model scripted/demo" in chat.say(f"/{package.name}")
    seen = chat.say(
        "run: find /mikan/packages -type f; ls /mikan; "
        f"touch /mikan/packages/{package.name}/skills/x; echo hunter2-hunter2"
    )
    assert f"/mikan/packages/{package.name}/skills/greetings/SKILL.md" in seen
    assert "extension.py" not in seen
    assert "extension-secrets" not in seen
    assert "Read-only file system" in seen
    assert "***" in seen
    inside = release.in_agent(chat.key, "sh", "-c", f"cd /mikan/packages/local/{package.name}; touch x; ls")
    assert "Read-only file system" in inside.stderr
    assert "extension.py" in inside.stdout

    listed = ext(chat, "list", "--conversation", chat.conversation).stdout.splitlines()
    assert listed[1].split() == ["office", package.name, f"/mikan/packages/local/{package.name}", "there"]


@pytest.mark.timeout(600)
def test_an_edit_is_loaded_by_new_and_a_removal_by_another_pod(chat: Chat, package: Path) -> None:
    chat.say("run: true")
    before = agent_uid(chat)
    installed(chat, str(package), "--conversation", chat.conversation)
    replaced(chat, before)
    chat.say(f"/{package.name}")

    write_extension(package, "hello again")
    installed(chat, str(package), "--conversation", chat.conversation)
    assert "visit" in chat.say(f"/{package.name}")
    chat.say("/new")
    assert "hello again" in chat.say(f"/{package.name}")

    before = agent_uid(chat)
    assert ext(chat, "remove", package.name, "--conversation", chat.conversation).returncode == 0
    replaced(chat, before)
    assert "hello again" not in chat.say(f"/{package.name}")


@pytest.mark.timeout(600)
def test_the_board_of_the_docs_sets_up_its_reminder_as_an_event_of_the_office(chat: Chat) -> None:
    release = chat.release
    chat.say("run: true")
    before = agent_uid(chat)
    example = REPOSITORY / "docs" / "examples" / "extensions" / "follow-up-board"
    assert "skills: follow-ups" in installed(chat, str(example), "--conversation", chat.conversation)
    replaced(chat, before)

    assert "Nothing is open." in chat.say("/board")
    (event,) = (
        found["spec"]
        for found in release.kubectl.get("scheduledevents", "-n", release.offices)
        if found["spec"]["conversationId"] == chat.conversation
    )
    assert (event["source"], event["schedule"], event["timezone"]) == ("extension", "0 9 * * 1-5", "UTC")


@pytest.mark.timeout(600)
def test_globally_it_reaches_every_office_by_the_settings_overrides(chat: Chat, package: Path) -> None:
    installed(chat, str(package), "--global")
    try:
        overrides = chat.release.kubectl.get("configmap", "ext-settings-overrides", "-n", chat.release.namespace)
        assert json.loads(overrides["data"]["overrides.json"]) == {
            "packages": [f"/mikan/packages/local/{package.name}"]
        }
        # The kubelet brings a changed ConfigMap within a minute or two.
        eventually("the extension's answer", lambda: "visit" in chat.say(f"/{package.name}"), seconds=240)
    finally:
        assert ext(chat, "remove", package.name, "--global").returncode == 0


@pytest.mark.timeout(600)
def test_what_cannot_be_fetched_changes_nothing(chat: Chat) -> None:
    """The cluster has no way to a git server; its gateway's own git says so, in time, and with no prompt."""
    chat.say("run: true")
    done = ext(chat, "install", "github:acme/board", "--conversation", chat.conversation)

    assert done.returncode == 1
    assert "Could not resolve host: github.com" in done.stderr
    assert "packages" not in chat.release.office(chat.key)["spec"]
