"""Every manifest against its golden file, and what must hold for all of them."""

import base64
from typing import Any

import pytest

from mikan_api import names
from mikan_api.effective import effective_office
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.messaging import TrustModel
from mikan_api.resources import OfficeDoorPolicy, OfficeSandbox, OfficeSpec
from mikan_api.settings import Settings
from mikan_api.tokens import verify_token
from mikan_operator.builders import access
from mikan_operator.builders.agent_pod import agent_pod
from mikan_operator.builders.plan import MountedVault, OfficePlan
from mikan_operator.builders.sandbox_pod import sandbox_pod
from mikan_operator.storage.kinds import Manifest
from mikan_operator.vault_mounts import FileMount, Mounts
from mikan_operator_testing.golden import check_golden
from mikan_operator_testing.world import INSTALLATION, KEYS

VAULT = MountedVault(
    "v1-slack-c123-f1bbf4ab194ff2ea",
    "4711",
    Mounts(("TOKEN",), (FileMount("gws.json", ".config/gws/credentials.json", "0600"),), every_variable=True),
)
SETTINGS = Settings.model_validate({"sandbox": {"env": {"LANG": "C.UTF-8", "PRICE": "$(TOKEN) $5"}}})


def plan(
    *,
    policy: OfficeDoorPolicy | None = None,
    mode: str | None = None,
    vault: MountedVault | None = None,
    runtime_class: str = "",
    conversation: str = "C123",
    packages: tuple[str, ...] | None = None,
) -> OfficePlan:
    spec = OfficeSpec(
        platform=Platform.SLACK,
        conversation_id=conversation,
        trust_model=TrustModel.MEMBERSHIP,
        door_policy=policy,
        sandbox=OfficeSandbox(mode=mode) if mode else None,
        packages=packages,
    )
    return OfficePlan(
        address=OfficeAddress(Platform.SLACK, conversation),
        uid="0b1c",
        effective=effective_office(spec, SETTINGS),
        vault=vault,
        runtime_class=runtime_class,
        installation=INSTALLATION,
    )


SHARED = OfficeDoorPolicy(trust="trusted", layout="shared-support")
FULL = OfficeDoorPolicy(trust="trusted", layout="full")
PLANS = {
    "isolated": plan(),
    "vault": plan(vault=VAULT),
    "shared-support": plan(policy=SHARED),
    "full": plan(policy=FULL),
    "packages": plan(packages=("github:acme/tools@v1#board", "/mikan/packages/local/audit", "broken")),
    "other-image": plan(mode="image:docker.io/library/alpine:3", vault=VAULT),
    "gondolin": plan(mode="gondolin:default", runtime_class="kata"),
}


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.mark.parametrize("name", PLANS)
def test_sandbox_pod_is_as_reviewed(name: str, update: bool) -> None:
    check_golden(f"sandbox-{name}", sandbox_pod(PLANS[name]), update=update)


@pytest.mark.parametrize("name", ["isolated", "shared-support", "full", "packages"])
def test_agent_pod_is_as_reviewed(name: str, update: bool) -> None:
    check_golden(f"agent-{name}", agent_pod(PLANS[name], "0123456789abcdef"), update=update)


@pytest.mark.parametrize(
    ("name", "manifest"),
    [
        ("service-account", access.service_account(PLANS["isolated"])),
        ("role", access.role(PLANS["isolated"])),
        ("role-binding", access.role_binding(PLANS["isolated"], "mikan-offices")),
        ("token-secret", access.token_secret(PLANS["isolated"], KEYS, 3)),
    ],
)
def test_access_objects_are_as_reviewed(name: str, manifest: Manifest, update: bool) -> None:
    check_golden(name, manifest, update=update)


def every_pod() -> list[Any]:
    made = [(f"sandbox-{n}", sandbox_pod(p)) for n, p in PLANS.items()]
    made += [(f"agent-{n}", agent_pod(p, "t")) for n, p in PLANS.items()]
    return [pytest.param(pod, id=name) for name, pod in made]


@pytest.mark.parametrize("pod", every_pod())
def test_every_pod_meets_the_restricted_profile(pod: Manifest) -> None:
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    allowed = {"emptyDir", "persistentVolumeClaim", "secret", "projected"}
    assert {kind for volume in spec["volumes"] for kind in volume if kind != "name"} <= allowed


@pytest.mark.parametrize("pod", every_pod())
def test_every_mount_has_its_volume_and_every_volume_its_mount(pod: Manifest) -> None:
    spec = pod["spec"]
    containers = (*spec.get("initContainers", ()), *spec["containers"])
    mounted = {mount["name"] for container in containers for mount in container.get("volumeMounts", ())}
    assert mounted == {volume["name"] for volume in spec["volumes"]}


@pytest.mark.parametrize("name", PLANS)
def test_only_a_sandbox_gets_the_vault_and_no_sandbox_gets_an_identity(name: str) -> None:
    agent, sandbox = agent_pod(PLANS[name], "t")["spec"], sandbox_pod(PLANS[name])["spec"]

    extensions = {names.extension_secret(package.slug) for package in PLANS[name].packages}
    secrets = [v["secret"] for v in agent["volumes"] if "secret" in v]
    assert {s["secretName"] for s in secrets} == {names.token_secret(PLANS[name].key)} | extensions
    assert {s["secretName"] for s in secrets if s.get("optional")} == extensions
    assert "serviceAccountName" not in sandbox
    assert not [v for v in sandbox["volumes"] if "projected" in v]


@pytest.mark.parametrize("name", PLANS)
def test_no_agent_can_replace_a_directory_that_the_kubelet_mounts_into_another_pod(name: str) -> None:
    """The kubelet follows links in a ``subPath``, within the volume: to the directories of other offices."""
    agent, sandbox = agent_pod(PLANS[name], "t")["spec"], sandbox_pod(PLANS[name])["spec"]
    mount_points = {m["subPath"] for m in agent["containers"][0]["volumeMounts"] if "subPath" in m}

    for mount in sandbox["containers"][0]["volumeMounts"]:
        below_an_agents = [p for p in mount_points if mount.get("subPath", "").startswith(f"{p}/")]
        assert not below_an_agents or mount["subPath"] in mount_points


def test_the_hash_changes_with_what_only_a_new_pod_can_change() -> None:
    def baked(pod: Manifest) -> str:
        return str(pod["metadata"]["annotations"][names.ANNOTATION_BAKED])

    rotated = MountedVault(VAULT.secret_name, "4712", VAULT.mounts)
    assert baked(sandbox_pod(plan(vault=VAULT))) == baked(sandbox_pod(plan(vault=rotated)))
    assert baked(sandbox_pod(plan(vault=VAULT))) != baked(sandbox_pod(plan()))
    assert baked(sandbox_pod(plan())) != baked(sandbox_pod(plan(policy=SHARED)))
    assert baked(agent_pod(plan(), "one")) == baked(agent_pod(plan(), "two"))


@pytest.mark.parametrize(
    ("conversation", "written"),
    [("$(MIKAN_POD_NAME)", "$$(MIKAN_POD_NAME)"), ("a$$(HOME)$$b$", "a$$$$(HOME)$$$$b$$")],
)
def test_a_raw_conversation_id_reaches_the_agent_as_it_is(conversation: str, written: str) -> None:
    """The kubelet makes ``$`` of ``$$``, and expands ``$(NAME)``."""
    made = agent_pod(plan(conversation=conversation), "t")

    values = {v["name"]: v.get("value") for v in made["spec"]["containers"][0]["env"]}
    assert values["MIKAN_OFFICE_CONVERSATION"] == written


def test_settings_cannot_redirect_the_vault() -> None:
    hostile = Settings.model_validate({"sandbox": {"env": {"MIKAN_VAULT_ENV": "x", "HOME": "/root"}}})
    spec = OfficeSpec(platform=Platform.SLACK, conversation_id="C123", trust_model=TrustModel.MEMBERSHIP)
    made = sandbox_pod(OfficePlan(spec.address, "0b1c", effective_office(spec, hostile), VAULT, "", INSTALLATION))

    values = {v["name"]: v["value"] for v in made["spec"]["containers"][0]["env"]}
    assert values["MIKAN_VAULT_ENV"] == "*"
    assert values["HOME"] == "/home/mikan"


def test_a_file_with_a_mode_of_its_own_has_every_key_listed() -> None:
    mounts = Mounts(("TOKEN",), (FileMount("id", ".ssh/id", "0400"),), every_variable=False)
    made = sandbox_pod(plan(vault=MountedVault("vault", "1", mounts)))

    secret = next(v["secret"] for v in made["spec"]["volumes"] if v["name"] == "vault")
    assert secret["items"] == [
        {"key": "TOKEN", "path": "TOKEN", "mode": 0o440},
        {"key": "id", "path": "id", "mode": 0o400},
    ]


def test_tokens_are_valid_for_their_audience_office_and_epoch() -> None:
    secret = access.token_secret(PLANS["isolated"], KEYS, 3)

    token = base64.b64decode(secret["data"]["gateway"]).decode()
    claims = verify_token([KEYS.gateway], "gateway", token)
    assert (claims.office, claims.uid, claims.epoch) == ("v1-slack-c123-f1bbf4ab194ff2ea", "0b1c", 3)
