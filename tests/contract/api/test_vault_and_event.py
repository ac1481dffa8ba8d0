"""What a real API server accepts and refuses of Vaults and ScheduledEvents: every rule and bound both ways."""

from typing import Any

import pytest

from mikan_operator.exceptions import Invalid
from mikan_operator.storage.kinds import VAULT, Kind
from mikan_operator_testing.live import vault

EVENT = Kind("mikan.dev", "v1alpha1", "ScheduledEvent", "scheduledevents")
KEY = "v1-console-general-0123456789abcdef"

VAULTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an office's own": (KEY, "office", {}),
    "shared": ("shared-team", "shared", {"allowedOffices": [KEY]}),
    "of a container": ("container-tools", "container", {}),
    "of a user": ("user-0123456789abcdef", "user", {}),
    "another Secret": (KEY, "office", {"secretName": "my.secret"}),
    "no variables": (KEY, "office", {"env": []}),
    "256 variables": (KEY, "office", {"env": [f"V{n}" for n in range(256)]}),
    "a file with a path": (KEY, "office", {"files": [{"key": ".netrc", "path": "~/.ssh/id_1", "mode": "0400"}]}),
    "128 files": (KEY, "office", {"files": [{"key": f"k{n}"} for n in range(128)]}),
    "1024 offices": ("shared-team", "shared", {"allowedOffices": [f"o{n}" for n in range(1024)]}),
}
VAULTS_REFUSED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "an office's by another name": ("mine", "office", {}, "named by the office key"),
    "shared by another name": ("team", "shared", {}, "the name begins with the scope"),
    "a user's by a shared name": ("shared-team", "user", {}, "the name begins with the scope"),
    "a scope of one's own": ("world-x", "world", {}, "spec.scope: Unsupported value"),
    "too long a name": ("shared-" + "x" * 55, "shared", {}, "metadata.name: Too long"),
    "allowed offices on an office's own": (KEY, "office", {"allowedOffices": []}, "only a shared vault"),
    "a Secret's name with capitals": (KEY, "office", {"secretName": "X"}, "spec.secretName"),
    "257 variables": (KEY, "office", {"env": [f"V{n}" for n in range(257)]}, "spec.env: Too many"),
    "one variable twice": (KEY, "office", {"env": ["A", "A"]}, "Duplicate value"),
    "a variable with a dash": (KEY, "office", {"env": ["A-B"]}, "spec.env[0]"),
    "one file twice": (KEY, "office", {"files": [{"key": "a"}, {"key": "a"}]}, "Duplicate value"),
    "129 files": (KEY, "office", {"files": [{"key": f"k{n}"} for n in range(129)]}, "spec.files: Too many"),
    "a file without a key": (KEY, "office", {"files": [{"path": "x"}]}, "files[0].key: Required value"),
    "a key with a slash": (KEY, "office", {"files": [{"key": "a/b"}]}, "files[0].key"),
    "an absolute path": (KEY, "office", {"files": [{"key": "a", "path": "/etc/passwd"}]}, "files[0].path"),
    "a path that ends nowhere": (KEY, "office", {"files": [{"key": "a", "path": "a/"}]}, "files[0].path"),
    "a mode of one's own": (KEY, "office", {"files": [{"key": "a", "mode": "rw"}]}, "files[0].mode"),
    "1025 offices": (
        "shared-team",
        "shared",
        {"allowedOffices": [f"o{n}" for n in range(1025)]},
        "allowedOffices: Too many",
    ),
}


@pytest.mark.parametrize(("name", "scope", "spec"), VAULTS.values(), ids=VAULTS)
async def test_a_vault_that_is_accepted(trial: Any, name: str, scope: str, spec: dict[str, Any]) -> None:
    made = await trial.create(VAULT, vault(name, scope, **spec))

    assert made["spec"]["scope"] == scope


@pytest.mark.parametrize(("name", "scope", "spec", "message"), VAULTS_REFUSED.values(), ids=VAULTS_REFUSED)
async def test_a_vault_that_is_refused(trial: Any, name: str, scope: str, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as refused:
        await trial.create(VAULT, vault(name, scope, **spec))

    assert message in str(refused.value)


async def test_a_vaults_scope_is_immutable(trial: Any) -> None:
    await trial.api.create(VAULT, vault("shared-kept", "shared"))

    with pytest.raises(Invalid, match="scope is immutable"):
        await trial.merge(VAULT, "shared-kept", {"spec": {"scope": "user"}})


def event(**spec: Any) -> dict[str, Any]:
    base = {"type": "immediate", "platform": "slack", "conversationId": "C1", "text": "hello"}
    merged = {key: value for key, value in (base | spec).items() if value is not None}
    return {"apiVersion": EVENT.api_version, "kind": EVENT.kind, "metadata": {"name": "e"}, "spec": merged}


ONE_SHOT = {"type": "one-shot", "at": "2026-03-01T12:00:00+01:00"}
PERIODIC = {"type": "periodic", "schedule": "0 9 * * 1-5", "timezone": "Europe/Berlin"}
EVENTS: dict[str, dict[str, Any]] = {
    "immediate": {},
    "one-shot with an offset": ONE_SHOT,
    "one-shot with Z and fractions": {"type": "one-shot", "at": "2026-03-01T12:00:00.5Z"},
    "periodic": PERIODIC,
    "the longest text": {"text": "x" * 32_768},
    "a user": {"userId": "U1"},
    "suspended": {"suspend": True},
    "a deadline": {"startingDeadlineSeconds": 0},
    "a source": {"source": "file"},
}
EVENTS_REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a type of one's own": ({"type": "hourly"}, "spec.type: Unsupported value"),
    "an unknown platform": ({"platform": "irc"}, "spec.platform: Unsupported value"),
    "a dot name": ({"conversationId": ".."}, "conversationId can't be a dot name"),
    "no text": ({"text": ""}, "spec.text"),
    "too long a text": ({"text": "x" * 32_769}, "spec.text: Too long"),
    "one-shot without at": ({"type": "one-shot"}, "at belongs to type one-shot"),
    "immediate with at": ({"at": ONE_SHOT["at"]}, "at belongs to type one-shot"),
    "at without an offset": ({"type": "one-shot", "at": "2026-03-01T12:00:00"}, "spec.at"),
    "periodic without a schedule": ({**PERIODIC, "schedule": None}, "schedule belongs to type periodic"),
    "periodic without a timezone": ({**PERIODIC, "timezone": None}, "timezone belongs to type periodic"),
    "one-shot with a schedule": ({**ONE_SHOT, "schedule": "0 9 * * *"}, "schedule belongs to type periodic"),
    "immediate with a timezone": ({"timezone": "UTC"}, "timezone belongs to type periodic"),
    "a deadline before now": ({"startingDeadlineSeconds": -1}, "startingDeadlineSeconds"),
    "a deadline beyond a year": ({"startingDeadlineSeconds": 31_536_001}, "startingDeadlineSeconds"),
    "a source of one's own": ({"source": "cron"}, "spec.source: Unsupported value"),
}


@pytest.mark.parametrize("spec", EVENTS.values(), ids=EVENTS)
async def test_an_event_that_is_accepted(trial: Any, spec: dict[str, Any]) -> None:
    made = await trial.create(EVENT, event(**spec))

    assert made["spec"]["conversationKind"] == "direct"


@pytest.mark.parametrize(("spec", "message"), EVENTS_REFUSED.values(), ids=EVENTS_REFUSED)
async def test_an_event_that_is_refused(trial: Any, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as refused:
        await trial.create(EVENT, event(**spec))

    assert message in str(refused.value)
