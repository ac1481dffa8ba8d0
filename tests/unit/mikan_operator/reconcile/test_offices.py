"""Reconciling offices, against a store in memory."""

import pytest

from mikan_api import names
from mikan_operator.exceptions import Forbidden, NamespaceTerminating
from mikan_operator.reconcile.crowd import LARGE
from mikan_operator.storage.kinds import (
    OFFICE,
    POD,
    ROLE,
    ROLE_BINDING,
    RUNTIME_CLASS,
    SECRET,
    SERVICE_ACCOUNT,
    VAULT,
)
from mikan_operator_testing.live import office, secret, vault
from mikan_operator_testing.world import World

RUNNING = {
    "Ready": ("True", "Running"),
    "AgentReady": ("True", "Running"),
    "SandboxReady": ("True", "Running"),
    "VaultReady": ("True", "NoVault"),
}


def labelled(name: str, *keys: str) -> dict[str, object]:
    made = secret(name, {})
    return {**made, "data": dict.fromkeys(keys, "dg==")}


async def test_a_new_office_gets_all_its_children_owned_by_it() -> None:
    world = World()

    key = await world.open()

    owned = {SERVICE_ACCOUNT: f"a-{key}", ROLE: f"a-{key}", ROLE_BINDING: f"a-{key}", SECRET: f"t-{key}"}
    uid = world.store.peek(OFFICE, key)["metadata"]["uid"]  # type: ignore[index]
    for kind, name in (*owned.items(), (POD, f"a-{key}"), (POD, f"s-{key}")):
        made = world.store.peek(kind, name)
        assert made is not None
        assert made["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "mikan.dev/v1alpha1",
                "kind": "Office",
                "name": key,
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    assert world.conditions(key) == RUNNING


@pytest.mark.parametrize("slow", ["serviceaccounts", "roles", "secrets", "pods"])
async def test_whichever_child_is_slow_none_is_refused_for_want_of_another(slow: str) -> None:
    world = World()
    world.store.slow[slow] = 50

    key = await world.open()

    made = [plural for verb, plural, _ in world.store.writes if verb == "create"]
    assert sorted(made) == ["pods", "pods", "rolebindings", "roles", "secrets", "serviceaccounts"]
    assert world.conditions(key) == RUNNING


async def test_the_status_names_pods_policy_and_model() -> None:
    world = World(llm={"model": "scripted/other"})

    key = await world.open(doorPolicy={"trust": "trusted", "layout": "shared-support"})

    status = world.store.peek(OFFICE, key)["status"]  # type: ignore[index]
    pod = world.store.peek(POD, f"a-{key}")
    assert pod is not None
    assert status["agent"] == {"podName": f"a-{key}", "podUID": pod["metadata"]["uid"]}
    assert status["sandbox"]["podName"] == f"s-{key}"
    assert status["doorPolicy"] == {"trust": "trusted", "layout": "shared-support", "source": "Office"}
    assert status["llmModel"] == "scripted/other"
    assert status["observedGeneration"] == 1


async def test_nothing_is_written_when_nothing_changed() -> None:
    world = World()
    key = await world.open()
    world.store.writes.clear()

    for _ in range(3):
        await world.pass_time(60)

    assert world.store.writes == []
    assert world.conditions(key) == RUNNING


async def test_a_restarted_operator_reads_and_writes_nothing() -> None:
    world = World()
    await world.open()
    world.store.writes.clear()

    world.restart()
    await world.settle()

    assert world.store.writes == []


async def test_an_office_is_looked_at_again_when_its_idle_time_is_over() -> None:
    world = World(idleTimeout="10m")
    key = await world.open()

    assert world.again[key] == pytest.approx(600, abs=1)


async def test_an_idle_office_loses_its_pods_and_keeps_its_access() -> None:
    world = World(idleTimeout="10m")
    key = await world.open()

    await world.pass_time(601)

    assert world.conditions(key)["Ready"] == ("False", "Idle")
    assert [w for w in world.store.writes if w[0] == "delete"] == [
        ("delete", "pods", f"a-{key}"),
        ("delete", "pods", f"s-{key}"),
    ]
    assert world.store.peek(SECRET, f"t-{key}") is not None
    assert "agent" not in world.store.peek(OFFICE, key)["status"]  # type: ignore[index]


async def test_activity_wakes_a_sleeping_office_once_its_old_pods_are_gone() -> None:
    world = World(idleTimeout="10m")
    key = await world.open()
    await world.pass_time(601)

    world.activity(key)
    await world.settle()
    assert world.conditions(key)["Ready"] == ("False", "Terminating")
    assert f"a-{key}" in world.message(key)

    world.store.vanish(POD, f"a-{key}")
    world.store.vanish(POD, f"s-{key}")
    await world.settle()
    assert world.conditions(key)["Ready"] == ("False", "Starting")
    world.ready(f"a-{key}")
    world.ready(f"s-{key}")
    await world.settle()
    assert world.conditions(key) == RUNNING


async def test_a_message_between_the_two_looks_keeps_the_pods() -> None:
    world = World(idleTimeout="10m")
    key = await world.open()
    world.store.changed = lambda kind, manifest, deleted: None  # the watch lags behind
    world.now = world.now.replace(minute=11)
    world.activity(key)

    world.intake.enqueue_all()
    await world.settle()

    assert [w for w in world.store.writes if w[0] == "delete"] == []
    assert world.again[key] == 0.0


async def test_a_running_session_keeps_an_office_awake_however_long() -> None:
    world = World(idleTimeout="10m")
    key = await world.open()
    world.activity(key, running=1)

    await world.pass_time(36_000)

    assert world.conditions(key) == RUNNING


async def test_a_suspended_office_ends_when_its_session_does() -> None:
    world = World()
    key = await world.open()
    world.activity(key, running=1)
    world.store.put(OFFICE, office("general", suspend=True))
    await world.settle()
    assert world.conditions(key)["Ready"] == ("True", "Stale")

    world.activity(key, running=0)
    await world.settle()

    assert world.conditions(key)["Ready"] == ("False", "Suspended")
    assert ("delete", "pods", f"a-{key}") in world.store.writes


async def test_a_change_baked_into_the_pods_waits_for_the_session_then_recycles() -> None:
    world = World()
    key = await world.open()
    old = world.store.peek(POD, f"s-{key}")
    assert old is not None
    world.activity(key, running=1)
    world.store.put(OFFICE, office("general", sandbox={"mode": "image:registry.test/other:2"}))
    await world.settle()
    assert world.conditions(key)["Ready"] == ("True", "Stale")

    world.activity(key, running=0)
    await world.settle()
    for name in (f"a-{key}", f"s-{key}"):
        world.store.vanish(POD, name)
    await world.settle()

    made = world.store.peek(POD, f"s-{key}")
    assert made is not None
    assert made["spec"]["containers"][0]["image"] == "registry.test/other:2"
    assert (
        made["metadata"]["annotations"][names.ANNOTATION_BAKED]
        != old["metadata"]["annotations"][names.ANNOTATION_BAKED]
    )


async def test_a_model_change_recycles_nothing() -> None:
    world = World()
    key = await world.open()
    world.store.writes.clear()

    world.store.put(OFFICE, office("general", llm={"model": "scripted/other"}))
    await world.settle()

    assert world.store.writes == [("apply", "offices/status", key)]


async def test_what_somebody_else_owns_is_never_adopted() -> None:
    world = World()
    key = office("general")["metadata"]["name"]
    world.store.put(POD, {"metadata": {"name": f"a-{key}"}, "spec": {}})
    before = world.store.peek(POD, f"a-{key}")

    world.store.put(OFFICE, office("general"))
    await world.settle()

    assert world.conditions(key)["Ready"] == ("False", "NotOwned")
    assert world.message(key) == f"Pod a-{key} exists and is not owned by this Office; it is left alone"
    assert world.store.peek(POD, f"a-{key}") == before
    assert world.events() == [(key, "NotOwned")]


async def test_what_an_earlier_office_left_is_waited_for() -> None:
    world = World()
    key = office("general")["metadata"]["name"]
    owner = {"apiVersion": "mikan.dev/v1alpha1", "kind": "Office", "name": key, "uid": "earlier", "controller": True}
    world.store.put(SECRET, {"metadata": {"name": f"t-{key}", "ownerReferences": [owner]}, "data": {}})

    await world.open()

    assert world.conditions(key)["Ready"] == ("False", "Terminating")
    assert world.events() == []


async def test_a_name_that_is_not_the_key_is_refused() -> None:
    world = World()
    made = office("general")
    made["metadata"]["name"] = "v1-console-general-0000000000000000"
    world.store.put(OFFICE, made)

    await world.settle()

    assert world.conditions("v1-console-general-0000000000000000")["Ready"] == ("False", "KeyMismatch")
    assert world.store.names(POD) == []


async def test_the_effective_policy_is_checked_again() -> None:
    world = World(doorPolicy={"trust": "trusted", "layout": "full"})

    key = await world.open(trustModel="open-trigger")

    assert world.conditions(key)["Ready"] == ("False", "InvalidPolicy")
    assert "open-trigger" in world.message(key)
    assert world.store.names(POD) == []


@pytest.mark.parametrize("mode", ["host", "container:tools", "cloudflare:abc"])
async def test_a_mode_that_is_not_offered_is_said(mode: str) -> None:
    world = World(doorPolicy={"trust": "trusted"})

    key = await world.open(sandbox={"mode": mode})

    assert world.conditions(key)["SandboxReady"] == ("False", "ModeUnavailable")
    assert world.conditions(key)["Ready"] == ("False", "ModeUnavailable")
    assert world.store.names(POD) == []


async def test_a_microvm_needs_its_runtime_class_and_starts_once_it_is_there() -> None:
    world = World(sandbox={"runtimeClasses": {"gondolin": "kata"}})
    key = await world.open(sandbox={"mode": "gondolin:default"})
    assert world.conditions(key)["SandboxReady"] == ("False", "RuntimeClassNotFound")
    assert world.again[key] == 30.0

    world.store.put(RUNTIME_CLASS, {"metadata": {"name": "kata"}})
    await world.pass_time(30)

    made = world.store.peek(POD, f"s-{key}")
    assert made is not None
    assert made["spec"]["runtimeClassName"] == "kata"


async def test_a_lost_pod_is_made_again() -> None:
    world = World()
    key = await world.open()

    world.store.vanish(POD, f"a-{key}")
    await world.settle()

    assert world.store.peek(POD, f"a-{key}") is not None
    assert world.conditions(key)["Ready"] == ("False", "Starting")


async def test_an_evicted_pod_is_replaced_and_told_of() -> None:
    world = World()
    key = await world.open()

    world.store.set_status(
        POD, f"s-{key}", phase="Failed", reason="Evicted", message="node had no memory", conditions=[]
    )
    await world.settle()
    world.store.vanish(POD, f"s-{key}")
    await world.settle()

    assert world.events() == [(key, "PodFailed")]
    made = world.store.peek(POD, f"s-{key}")
    assert made is not None
    assert "status" not in made or "phase" not in made["status"]


async def test_a_pod_that_fails_again_and_again_is_held_back_longer_each_time() -> None:
    world = World()
    key = await world.open()
    holds = []
    for _ in range(4):
        world.store.set_status(POD, f"s-{key}", phase="Failed", reason="Evicted", message="too large", conditions=[])
        await world.settle()
        world.store.vanish(POD, f"s-{key}")
        await world.settle()
        holds.append(None if world.store.peek(POD, f"s-{key}") else world.again[key])
        await world.pass_time(world.again[key] or 0 if holds[-1] else 0)

    assert holds == [None, 5.0, 10.0, 20.0]
    world.store.set_status(POD, f"s-{key}", phase="Failed", reason="Evicted", message="too large", conditions=[])
    await world.settle()
    world.store.vanish(POD, f"s-{key}")
    await world.settle()
    office = world.store.peek(OFFICE, key)
    assert office is not None
    (ready,) = (c for c in office["status"]["conditions"] if c["type"] == "Ready")
    assert (
        ready["message"] == f"its pods failed 5 times; tried again soon; the last one: pod s-{key}: Evicted: too large"
    )


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]},
            "PodUnschedulable",
            "0/1 nodes are available",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "sandbox",
                        "image": "x:1",
                        "state": {"waiting": {"reason": "ErrImagePull", "message": "m"}},
                    }
                ]
            },
            "ImageUnavailable",
            "container sandbox: image x:1 can't be had",
        ),
        (
            {
                "initContainerStatuses": [
                    {
                        "name": "install",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                        "lastState": {"terminated": {"reason": "Error", "exitCode": 3}},
                    }
                ]
            },
            "ContainerFailing",
            "container install: it ends again and again, last with Error, code 3",
        ),
    ],
)
async def test_what_keeps_a_pod_from_starting_is_said(status: dict[str, object], reason: str, message: str) -> None:
    world = World()
    key = await world.open()
    world.store.set_status(POD, f"s-{key}", **{"phase": "Pending", "conditions": [], **status})

    await world.settle()

    assert world.conditions(key)["SandboxReady"] == ("False", reason)
    assert world.conditions(key)["Ready"] == ("False", reason)
    assert world.message(key) == f"pod s-{key}: {message}"
    assert (key, reason) in world.events()


async def test_a_refused_child_is_said_and_tried_again() -> None:
    world = World()
    world.store.failures["create", "pods"] = Forbidden("exceeded quota: pods", 403)
    key = await world.open()
    assert world.conditions(key)["Ready"] == ("False", "Forbidden")
    assert world.message(key) == "exceeded quota: pods"
    assert world.again[key] == 30.0

    del world.store.failures["create", "pods"]
    await world.pass_time(30)

    assert world.store.names(POD) == [f"a-{key}", f"s-{key}"]


async def test_a_namespace_that_is_going_is_left_in_peace() -> None:
    world = World()
    world.store.failures["create", "pods"] = NamespaceTerminating("it is being terminated", 403)

    key = await world.open()

    assert "conditions" not in world.store.peek(OFFICE, key).get("status", {})  # type: ignore[union-attr]
    assert world.again[key] is None


async def test_an_office_that_is_being_deleted_gets_nothing_more() -> None:
    world = World()
    key = await world.open()
    going = world.store.peek(OFFICE, key)
    assert going is not None
    world.store.put(OFFICE, {**going, "metadata": {**going["metadata"], "deletionTimestamp": "2026-03-01T12:00:00Z"}})
    world.store.vanish(POD, f"a-{key}")
    world.store.writes.clear()

    await world.settle()

    assert world.store.writes == []


async def test_another_epoch_gives_other_tokens_and_refreshes_the_mount() -> None:
    world = World()
    key = await world.open()
    before = world.store.peek(SECRET, f"t-{key}")
    raised = office("general")
    raised["metadata"]["annotations"] = {names.ANNOTATION_TOKEN_EPOCH: "1"}
    world.store.writes.clear()

    world.store.put(OFFICE, raised)
    await world.settle()

    after = world.store.peek(SECRET, f"t-{key}")
    assert before is not None
    assert after is not None
    assert before["data"] != after["data"]
    assert world.store.writes == [("apply", "secrets", f"t-{key}"), ("apply", "pods", f"a-{key}")]


async def test_a_role_that_was_changed_by_hand_is_put_right_at_the_next_resync() -> None:
    world = World()
    key = await world.open()
    role = world.store.peek(ROLE, f"a-{key}")
    assert role is not None
    world.store.put(ROLE, {**role, "rules": []})

    world.children.forget_verified()
    await world.pass_time(1)

    assert world.store.peek(ROLE, f"a-{key}")["rules"] == role["rules"]  # type: ignore[index]


async def test_an_offices_own_vault_is_mounted() -> None:
    world = World()
    key = office("general")["metadata"]["name"]
    world.store.put(SECRET, labelled(key, "TOKEN"))
    world.store.put(VAULT, vault(key))

    await world.open()

    made = world.store.peek(POD, f"s-{key}")
    assert made is not None
    volume = next(v for v in made["spec"]["volumes"] if v["name"] == "vault")
    assert volume["secret"] == {"secretName": key, "defaultMode": 0o440, "optional": False}
    assert world.conditions(key)["VaultReady"] == ("True", "Bound")
    agent = world.store.peek(POD, f"a-{key}")
    assert agent is not None
    assert "vault" not in {v["name"] for v in agent["spec"]["volumes"]}


async def test_no_pod_starts_with_half_a_vault() -> None:
    world = World()
    key = office("general")["metadata"]["name"]
    world.store.put(VAULT, vault(key))

    await world.open()

    assert world.store.names(POD) == []
    assert world.conditions(key)["Ready"] == ("False", "VaultNotReady")
    assert world.message(key) == f"Vault {key}: SecretMissing: Secret {key} does not exist"

    world.store.put(SECRET, labelled(key, "TOKEN"))
    await world.settle()
    assert world.store.names(POD) == [f"a-{key}", f"s-{key}"]


async def test_a_rotation_touches_the_pod_and_nothing_else() -> None:
    world = World()
    key = office("general")["metadata"]["name"]
    world.store.put(SECRET, labelled(key, "TOKEN"))
    world.store.put(VAULT, vault(key))
    await world.open()
    world.store.writes.clear()

    rotated = world.store.put(SECRET, labelled(key, "TOKEN"))
    await world.settle()

    pod = world.store.peek(POD, f"s-{key}")
    assert pod is not None
    version = rotated["metadata"]["resourceVersion"]
    assert pod["metadata"]["annotations"][names.ANNOTATION_VAULT_VERSION] == version
    assert sorted(world.store.writes) == [("apply", "pods", f"s-{key}"), ("apply", "vaults/status", key)]


async def test_a_key_that_changes_the_list_of_files_recycles() -> None:
    world = World()
    key = office("general")["metadata"]["name"]
    world.store.put(SECRET, labelled(key, "TOKEN"))
    world.store.put(VAULT, vault(key))
    await world.open()

    world.store.put(SECRET, labelled(key, "TOKEN", "gws.json"))
    await world.settle()

    assert ("delete", "pods", f"s-{key}") in world.store.writes
    assert ("delete", "pods", f"a-{key}") not in world.store.writes


async def test_a_shared_vault_needs_the_offices_name_on_its_list() -> None:
    world = World()
    world.store.put(SECRET, labelled("shared-team", "TOKEN"))
    world.store.put(VAULT, vault("shared-team", "shared", allowedOffices=[]))
    key = await world.open(vaultName="shared-team")
    assert world.conditions(key)["VaultReady"] == ("False", "NotAllowed")
    assert world.store.names(POD) == []

    world.store.put(VAULT, vault("shared-team", "shared", allowedOffices=[key]))
    await world.settle()

    assert world.conditions(key)["VaultReady"] == ("True", "Bound")
    assert world.store.names(POD) == [f"a-{key}", f"s-{key}"]


async def test_another_offices_vault_is_not_allowed() -> None:
    world = World()
    other = office("other")["metadata"]["name"]
    world.store.put(SECRET, labelled(other, "TOKEN"))
    world.store.put(VAULT, vault(other))

    key = await world.open(vaultName=other)

    assert world.conditions(key)["VaultReady"] == ("False", "NotAllowed")
    assert world.store.names(POD) == []


async def test_of_many_offices_at_once_the_agents_come_first_and_a_sandbox_follows_once_few_are_on_their_way() -> None:
    world = World()
    keys = [world.store.put(OFFICE, office(f"c{number}"))["metadata"]["name"] for number in range(12)]

    await world.settle()

    first = set(world.store.names(POD))
    assert {f"a-{key}" for key in keys} < first
    assert len(first) == len(keys) + LARGE
    for key in keys[:4]:
        world.ready(f"a-{key}")
    await world.settle()
    assert {key for key in keys if world.again[key] == 1.0} == set(keys[LARGE:])
    written = len(world.store.writes)
    await world.pass_time(1)
    assert len(world.store.names(POD)) == 2 * len(keys)
    assert {verb for verb, _, _ in world.store.writes[written:]} == {"create", "apply"}


async def test_a_sandbox_waits_for_no_agents_that_have_been_starting_for_long() -> None:
    world = World()
    for number in range(12):
        world.store.put(OFFICE, office(f"c{number}"))
    await world.settle()
    assert len(world.store.names(POD)) == 12 + LARGE

    await world.pass_time(60)

    assert len(world.store.names(POD)) == 24


async def test_one_agent_that_is_made_anew_waits_for_nobody() -> None:
    world = World()
    keys = [await world.open(f"c{number}") for number in range(12)]

    world.store.set_status(POD, f"s-{keys[0]}", phase="Failed")
    await world.settle()

    assert f"s-{keys[0]}" in world.store.names(POD)
