"""The life of an office with a real API server, scheduler, garbage collector and kubelet."""

import asyncio
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from mikan_api import names
from mikan_dev.paths import kubeconfig, state_dir
from mikan_operator.exceptions import NotFound
from mikan_operator.storage.kinds import LEASE, OFFICE, POD, ROLE, ROLE_BINDING, SECRET, SERVICE_ACCOUNT, VAULT
from mikan_operator_testing.live import NAMESPACE, InPod, Live, address, conditions, office, secret, vault

RUNNING = ("True", "Running")
KEY = address("general").key


async def everything(world: Live) -> dict[str, str]:
    """Object -> resourceVersion of all that the operator could write."""
    found = {}
    for kind in (OFFICE, VAULT, POD, SECRET, SERVICE_ACCOUNT, ROLE, ROLE_BINDING):
        for item in await world.offices.list_all(kind):
            found[f"{kind.plural}/{item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
    return found


async def test_an_office_gets_pods_that_run_and_then_nothing_more_is_written(world: Live, in_pod: Any) -> None:
    await world.make(OFFICE, office("general"))
    ready = await world.office_with(KEY, "Ready", RUNNING)

    assert ready["status"]["agent"]["podName"] == f"a-{KEY}"
    assert ready["status"]["observedGeneration"] == 1
    listing = in_pod(
        f"s-{KEY}", "sandbox", "sh", "-c", f"touch /workspace/{KEY}/x && id -u && pwd && ls /mikan/records/{KEY}"
    )
    assert listing.split() == ["10001", f"/workspace/{KEY}", "history"]
    before = await everything(world)
    await asyncio.sleep(20)
    assert await everything(world) == before
    assert (await world.offices.get(OFFICE, KEY))["metadata"].get("finalizers") is None


async def test_a_sandbox_has_no_identity_and_an_agent_no_vault(world: Live, in_pod: Any) -> None:
    await world.make(SECRET, secret(KEY, {"TOKEN": "hunter2", "gws.json": "{}"}))
    await world.make(VAULT, vault(KEY))
    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", RUNNING)

    assert in_pod(f"s-{KEY}", "sandbox", "cat", "/mikan/vault/data/TOKEN") == "hunter2"
    found = in_pod(f"s-{KEY}", "sandbox", "sh", "-c", "ls /var/run/secrets 2>&1 || true")
    assert "No such file" in found
    agent = await world.offices.get(POD, f"a-{KEY}")
    assert KEY not in {v.get("secret", {}).get("secretName") for v in agent["spec"]["volumes"]}
    status = (await world.offices.get(VAULT, KEY))["status"]
    assert (status["variables"], status["files"]) == (["TOKEN"], ["~/.config/gws/credentials.json"])
    assert "hunter2" not in world.log()


async def test_a_rotated_secret_is_seen_within_5_seconds_without_a_new_pod(world: Live, in_pod: Any) -> None:
    await world.make(SECRET, secret(KEY, {"TOKEN": "old"}))
    await world.make(VAULT, vault(KEY))
    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", RUNNING)
    before = (await world.offices.get(POD, f"s-{KEY}"))["metadata"]["uid"]

    await world.patch(SECRET, KEY, {"stringData": {"TOKEN": "new"}})

    async def seen() -> bool:
        return bool(in_pod(f"s-{KEY}", "sandbox", "cat", "/mikan/vault/data/TOKEN") == "new")

    await world.until(seen, patience=5)
    assert (await world.offices.get(POD, f"s-{KEY}"))["metadata"]["uid"] == before


async def test_a_missing_or_unlabelled_secret_keeps_pods_away_until_it_is_right(world: Live) -> None:
    await world.make(VAULT, vault(KEY))
    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", ("False", "VaultNotReady"))
    assert conditions(await world.offices.get(VAULT, KEY))["SecretFound"] == ("False", "SecretMissing")

    await world.make(SECRET, secret(KEY, {"TOKEN": "x"}, labelled=False))
    assert await world.offices.list_all(POD) == []

    await world.patch(SECRET, KEY, {"metadata": {"labels": {names.LABEL_VAULT: "true"}}})
    await world.office_with(KEY, "Ready", RUNNING)
    reasons = [reason for reason, _ in await world.events(KEY)]
    assert reasons.count("VaultNotReady") == 1
    assert reasons.count("SecretMissing") == 1


async def test_colliding_mounts_keep_pods_away(world: Live) -> None:
    files = [{"key": "a", "path": "~/same"}, {"key": "b", "path": "same"}]
    await world.make(SECRET, secret(KEY, {"a": "1", "b": "2"}))
    await world.make(VAULT, vault(KEY, files=files))
    await world.make(OFFICE, office("general"))

    refused = await world.office_with(KEY, "Ready", ("False", "VaultNotReady"))

    message = next(c["message"] for c in refused["status"]["conditions"] if c["type"] == "VaultReady")
    assert message == f"Vault {KEY}: MountCollision: keys a and b both land at ~/same"
    assert await world.offices.list_all(POD) == []


async def test_a_foreign_pod_is_never_adopted(world: Live) -> None:
    container = {
        "name": "x",
        "image": "localhost/pause:1",
        "imagePullPolicy": "Never",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    foreign = await world.make(POD, {"metadata": {"name": f"a-{KEY}"}, "spec": {"containers": [container]}})

    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", ("False", "NotOwned"))

    kept = await world.offices.get(POD, f"a-{KEY}")
    assert kept["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert "ownerReferences" not in kept["metadata"]


async def test_an_office_sleeps_and_wakes(world: Live) -> None:
    await world.make(OFFICE, office("general", idleTimeout="3s"))
    await world.office_with(KEY, "Ready", ("False", "Idle"))
    for prefix in ("a", "s"):
        await world.gone(POD, f"{prefix}-{KEY}")

    await world.activity(KEY, running=1)
    await world.office_with(KEY, "Ready", RUNNING)
    await asyncio.sleep(4)
    assert conditions(await world.offices.get(OFFICE, KEY))["Ready"] == RUNNING

    await world.activity(KEY, at=datetime.now(UTC) - timedelta(seconds=10), running=0)
    slept = await world.office_with(KEY, "Ready", ("False", "Idle"))
    assert slept["status"]["runningSessions"] == 0


async def test_a_changed_policy_recycles_once_the_session_ends(world: Live, in_pod: Any) -> None:
    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", RUNNING)
    old = (await world.offices.get(POD, f"s-{KEY}"))["metadata"]["uid"]
    await world.activity(KEY, running=1)
    door = {"trust": "trusted", "layout": "shared-support"}

    await world.patch(OFFICE, KEY, {"spec": {"doorPolicy": door}})
    await world.office_with(KEY, "Ready", ("True", "Stale"))
    assert (await world.offices.get(POD, f"s-{KEY}"))["metadata"]["uid"] == old

    await world.activity(KEY, running=0)

    async def renewed() -> bool:
        return bool((await world.offices.get(POD, f"a-{KEY}"))["spec"]["volumes"][-1]["name"] == "shared")

    await world.until(renewed)


async def test_a_killed_pod_is_made_again(world: Live) -> None:
    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", RUNNING)
    old = (await world.offices.get(POD, f"a-{KEY}"))["metadata"]["uid"]

    await world.remove(POD, f"a-{KEY}")

    async def renewed() -> bool:
        return bool((await world.offices.get(POD, f"a-{KEY}"))["metadata"]["uid"] != old)

    await world.until(renewed)
    await world.office_with(KEY, "Ready", RUNNING)


async def test_an_image_that_is_not_there_is_said(world: Live) -> None:
    await world.make(OFFICE, office("general", sandbox={"mode": "image:localhost/nowhere:1"}))

    found = await world.office_with(KEY, "SandboxReady", ("False", "ImageUnavailable"))

    message = next(c["message"] for c in found["status"]["conditions"] if c["type"] == "SandboxReady")
    assert "localhost/nowhere:1" in message


async def test_an_image_without_our_user_gets_one(world: Live, in_pod: Any) -> None:
    await world.make(OFFICE, office("general", sandbox={"mode": "image:localhost/busybox:1"}))
    await world.office_with(KEY, "Ready", RUNNING)

    assert in_pod(f"s-{KEY}", "sandbox", "id", "-un") == "mikan\n"


@pytest.fixture
async def python_world(idle_world: Live) -> Live:
    """The operator with an agent image that has Python, as the real one does."""
    file = idle_world.directory / "operator.json"
    document = json.loads(file.read_text())
    document["images"]["agent"] = "localhost/python:3.11"
    file.write_text(json.dumps(document))
    await idle_world.start(kubeconfig())
    return idle_world


async def test_deleted_data_is_gone_before_the_object_is(python_world: Live) -> None:
    world = python_world
    volume = state_dir() / "local-volumes" / f"{world.release_namespace}-offices"
    await world.make(OFFICE, office("general", dataRetention="Delete"))
    await world.make(OFFICE, office("other"))
    other = address("other").key
    for key in (KEY, other):
        await world.office_with(key, "SandboxReady", RUNNING)
    (volume / "offices" / KEY / "link").symlink_to(volume / "offices" / other)
    (volume / "offices" / other / "kept").touch()

    await world.remove(OFFICE, KEY)
    await world.gone(OFFICE, KEY)

    assert not (volume / "offices" / KEY).exists()
    assert not (volume / "records" / KEY).exists()
    assert (volume / "offices" / other / "kept").exists()
    await world.gone(POD, f"c-{KEY}")


async def test_full_layout_sees_the_shared_volume_and_its_links(python_world: Live) -> None:
    world, in_pod = python_world, InPod(python_world)
    await world.make(OFFICE, office("general", doorPolicy={"trust": "trusted", "layout": "full"}))
    await world.office_with(KEY, "SandboxReady", RUNNING)

    script = (
        f"touch /workspace/{KEY}/x; mkdir -p /workspace/skills/../skills; readlink /workspace/skills /workspace/agents"
    )
    assert in_pod(f"s-{KEY}", "sandbox", "sh", "-c", script).split() == [
        "/mikan/shared/support/skills",
        "/mikan/shared/agents",
    ]


async def test_deleting_an_office_takes_its_running_pods_with_it(world: Live) -> None:
    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", RUNNING)

    await world.remove(OFFICE, KEY)

    for kind, name in (
        (OFFICE, KEY),
        (POD, f"a-{KEY}"),
        (POD, f"s-{KEY}"),
        (SECRET, f"t-{KEY}"),
        (SERVICE_ACCOUNT, f"a-{KEY}"),
        (ROLE, f"a-{KEY}"),
        (ROLE_BINDING, f"a-{KEY}"),
    ):
        await world.gone(kind, name)


async def test_an_office_made_anew_at_once_gets_pods_of_its_own(world: Live) -> None:
    first = await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", RUNNING)
    await world.remove(OFFICE, KEY)
    second = await world.make(OFFICE, office("general"))

    await world.office_with(KEY, "Ready", RUNNING)

    pod = await world.offices.get(POD, f"a-{KEY}")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == second["metadata"]["uid"]
    assert "NotOwned" not in [reason for reason, _ in await world.events(KEY)]


async def test_deleting_the_namespace_with_running_pods_finishes(world: Live) -> None:
    await world.make(SECRET, secret(KEY, {"TOKEN": "x"}))
    await world.make(VAULT, vault(KEY))
    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", RUNNING)

    await world.root._request("DELETE", NAMESPACE.path("", world.offices_namespace))

    async def gone() -> bool:
        try:
            await world.root.get(NAMESPACE, world.offices_namespace)
        except NotFound:
            return True
        return False

    await world.until(gone, patience=60)
    assert '"level": "error"' not in world.log(), world.log()


async def test_objects_can_be_deleted_while_no_operator_runs(world: Live) -> None:
    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", RUNNING)
    assert await world.stop() == 0

    await world.remove(OFFICE, KEY)

    await world.gone(OFFICE, KEY)
    await world.gone(POD, f"a-{KEY}")


async def test_a_restarted_operator_writes_nothing(world: Live) -> None:
    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", RUNNING)
    assert await world.stop() == 0
    before = await everything(world)

    await world.start(kubeconfig())
    await asyncio.sleep(5)

    assert await everything(world) == before


async def test_what_changed_while_no_operator_ran_is_made_up_for(world: Live) -> None:
    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", RUNNING)
    assert await world.stop() == 0
    await world.remove(POD, f"s-{KEY}")
    await world.gone(POD, f"s-{KEY}")

    await world.start(kubeconfig())

    await world.pod_ready(f"s-{KEY}")
    await world.office_with(KEY, "Ready", RUNNING)


async def test_changed_settings_reach_offices(world: Live) -> None:
    await world.make(OFFICE, office("general"))
    await world.office_with(KEY, "Ready", RUNNING)

    world.write_settings(idleTimeout="1h", llm={"model": "scripted/other"})

    async def told() -> bool:
        return bool((await world.offices.get(OFFICE, KEY))["status"]["llmModel"] == "scripted/other")

    await world.until(told)


async def test_health_names_each_watch_and_the_lease_is_given_up(world: Live) -> None:
    status, text = await world.http("/readyz")
    assert status == 200
    watched = ("offices", "vaults", "secrets", "pods", "scheduledevents")
    assert json.loads(text)["watches"] == dict.fromkeys(watched, True)
    assert (await world.http("/healthz"))[0] == 200
    assert "mikan_operator_lease_held 1.0" in (await world.http("/metrics"))[1]
    held = await world.release.get(LEASE, "mikan-operator")
    assert held["spec"]["holderIdentity"] == "operator-under-test"

    assert await world.stop() == 0

    assert (await world.release.get(LEASE, "mikan-operator"))["spec"].get("holderIdentity", "") == ""
    with pytest.raises(aiohttp.ClientError):
        await world.http("/healthz")


async def test_an_operator_begins_anew_and_waits_when_somebody_else_takes_the_lease(world: Live) -> None:
    lease = await world.release.get(LEASE, "mikan-operator")
    lease["spec"]["holderIdentity"] = "somebody-else"

    async def stolen() -> bool:
        lease["metadata"]["resourceVersion"] = (await world.release.get(LEASE, "mikan-operator"))["metadata"][
            "resourceVersion"
        ]
        await world.release.replace(LEASE, "mikan-operator", lease)
        return True

    await world.until(stolen)

    async def waits() -> bool:
        with suppress(aiohttp.ClientError):
            return bool(json.loads((await world.http("/readyz"))[1]) == {"ok": True, "role": "standby"})
        return False

    await world.until(waits)
    assert world.process is not None
    assert world.process.returncode is None
    assert "the Lease is lost: beginning anew" in world.log()
    assert (await world.release.get(LEASE, "mikan-operator"))["spec"]["holderIdentity"] == "somebody-else"
