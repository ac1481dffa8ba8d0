"""The chart as an admin meets it: lint, strict schemas, a server's dry run, a real install, upgrade and uninstall."""

import json
import subprocess
import tarfile
from io import BytesIO
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from mikan_cluster.commands import CommandFailed, Helm, Kubectl
from mikan_cluster.release import CHART, REPOSITORY, VALUES, Chat, Release

OFFLINE = (
    "--kube-version",
    "1.37",
    "--set",
    "networkPolicy.apiServer[0].ip=192.0.2.1",
    "--set",
    "networkPolicy.apiServer[0].port=6443",
)
OWN_KINDS = {"CustomResourceDefinition"}
"""Kinds whose schemas are not among those of the API's own resources."""


def rendered(helm: Helm, *arguments: str) -> list[dict[str, Any]]:
    """The chart's objects, rendered without a cluster."""
    text = helm("template", "mikan", str(CHART), "--namespace", "mikan", *OFFLINE, *arguments)
    return [document for document in yaml.safe_load_all(text) if document]


def test_lint_finds_nothing_but_the_missing_icon(helm: Helm) -> None:
    found = helm("lint", "--strict", str(CHART))

    assert [line for line in found.splitlines() if line.startswith("[")] == ["[INFO] Chart.yaml: icon is recommended"]


def test_every_object_fits_the_strict_schema_of_its_kind(helm: Helm) -> None:
    objects = rendered(helm)

    for found in objects:
        if found["kind"] not in OWN_KINDS:
            kubernetes_validate.validate(found, "1.37", strict=True)
    assert {o["kind"] for o in objects} >= {
        "Deployment",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "Role",
        "Job",
        *OWN_KINDS,
    }


def test_the_api_server_accepts_every_object_strictly(helm: Helm, kubectl: Kubectl, own: Release) -> None:
    kubectl("create", "namespace", own.namespace)
    kubectl("create", "namespace", own.offices)
    text = helm("template", own.name, str(CHART), "--namespace", own.namespace, *OFFLINE, "--values", str(VALUES))
    objects = [found for found in yaml.safe_load_all(text) if found]
    said = kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-",
        stdin="\n---\n".join(json.dumps(o) for o in objects),
    )  # fmt: skip

    assert len(said.splitlines()) == len(objects)
    assert all(line.endswith("serverside-applied (server dry run)") for line in said.splitlines())


def test_every_pod_of_the_chart_is_restricted(helm: Helm) -> None:
    for found in rendered(helm):
        spec = found["spec"].get("template", {}).get("spec") if found["kind"] in {"Deployment", "Job"} else None
        spec = found["spec"] if found["kind"] == "Pod" else spec
        if spec is None:
            continue
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]


def policy(helm: Helm, name: str, *arguments: str) -> dict[str, Any]:
    """One of the chart's NetworkPolicies."""
    return next(o for o in rendered(helm, *arguments) if o["kind"] == "NetworkPolicy" and o["metadata"]["name"] == name)


def test_a_sandbox_reaches_its_resolvers_wherever_they_are(helm: Helm) -> None:
    rules = policy(helm, "mikan-sandboxes", "--set", "sandbox.dns={10.0.0.53,fd00::53}")["spec"]["egress"]

    ports = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
    assert {
        "to": [{"ipBlock": {"cidr": "10.0.0.53/32"}}, {"ipBlock": {"cidr": "fd00::53/128"}}],
        "ports": ports,
    } in rules


def test_addresses_that_no_sandbox_reaches_anyway_leave_the_policy_valid(helm: Helm) -> None:
    """The API server refuses a policy whose exceptions lie outside of what they are exceptions from."""
    found = policy(
        helm, "mikan-sandboxes",
        "--set", "networkPolicy.apiServer[0].ip=fd00:10::1",
        "--set", "networkPolicy.apiServer[1].ip=2001:db8::1", "--set", "networkPolicy.apiServer[1].port=6443",
        "--set", "sandbox.deniedCIDRs={fc00::/7,2001:db8:1::/48,198.51.100.0/24}",
    )  # fmt: skip

    blocks = [to["ipBlock"] for rule in found["spec"]["egress"] for to in rule["to"] if "except" in to["ipBlock"]]
    for block in blocks:
        whole = ip_network(block["cidr"])
        assert all(ip_network(e).subnet_of(whole) and e != block["cidr"] for e in block["except"])  # type: ignore[arg-type]
    named = {e for block in blocks for e in block["except"]}
    assert named >= {"2001:db8::1/128", "2001:db8:1::/48", "198.51.100.0/24"}


def test_what_fences_offices_in_outlives_the_chart_as_they_do(helm: Helm) -> None:
    for name in ("mikan-agents", "mikan-sandboxes", "mikan-rest"):
        assert policy(helm, name)["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_a_process_has_five_minutes_to_start_on_a_busy_node(helm: Helm) -> None:
    probes = [o["spec"]["template"]["spec"]["containers"][0]["startupProbe"] for o in rendered(helm)
              if o["kind"] == "Deployment"]  # fmt: skip

    assert [p["periodSeconds"] * p["failureThreshold"] for p in probes] == [300, 300, 300]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "gatewayy.replicas=1"], "additional properties 'gatewayy' not allowed"),
        (["--set", "settings.llm.model=gpt"], "/settings/llm/model"),
        (["--set", "settings.doorPolicy.trust=open"], "/settings/doorPolicy/trust"),
        (["--set", "settings.idleTimeout=soon"], "/settings/idleTimeout"),
        (["--set", "storage.offices.size=big"], "/storage/offices/size"),
        (["--set", "telegram.enabled=true"], "/telegram/existingSecret"),
        (["--set", "gateway.replicas=2"], "gateway.replicas above 1 needs Postgres"),
        (["--set", "offices.namespace=mikan"], "offices.namespace must not be the release's own namespace"),
    ],
)
def test_a_wrong_value_is_refused_by_name(helm: Helm, arguments: list[str], says: str) -> None:
    with pytest.raises(CommandFailed, match="exit 1") as refused:
        rendered(helm, *arguments)

    assert says in str(refused.value).replace("'/", "/").replace("at /", "/")


def test_rendering_away_from_a_cluster_asks_for_the_api_servers_address(helm: Helm) -> None:
    with pytest.raises(CommandFailed, match=r"set networkPolicy\.apiServer"):
        helm("template", "mikan", str(CHART), "--namespace", "mikan", "--kube-version", "1.37")


def previous_chart(folder: Path) -> Path:
    """The chart as the commit before this one had it; in a clone without history, as this one has it."""
    git = ["git", "-C", str(REPOSITORY)]
    known = subprocess.run([*git, "rev-parse", "--verify", "--quiet", "HEAD~1"], capture_output=True, check=False)
    argv = [*git, "archive", "HEAD~1" if known.returncode == 0 else "HEAD", "charts/mikan"]
    with tarfile.open(fileobj=BytesIO(subprocess.run(argv, capture_output=True, check=True).stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "charts" / "mikan"


def test_an_install_of_the_previous_chart_is_upgraded_with_its_offices_and_keys(own: Release, tmp_path: Path) -> None:
    own.install(chart=previous_chart(tmp_path))
    chat = Chat(own)
    chat.say("run: echo kept > note.txt")
    office = own.office(chat.key)["metadata"]["uid"]
    keys = {
        n: own.kubectl.get("secret", n, "-n", own.namespace)["data"]
        for n in own.kubectl.names("secret", "-n", own.namespace)
        if n.startswith(own.name)
    }

    own.install()

    assert {n: own.kubectl.get("secret", n, "-n", own.namespace)["data"] for n in keys} == keys
    assert own.office(chat.key)["metadata"]["uid"] == office
    assert "kept" in chat.say("run: cat note.txt")


def test_helm_test_passes_when_every_process_is_ready(release: Release) -> None:
    said = release.helm("test", release.name, "--namespace", release.namespace)

    assert "Phase:          Succeeded" in said


def test_helm_test_fails_when_a_process_is_not_there(release: Release, own: Release) -> None:
    own.install("--set", "models.replicas=0")

    with pytest.raises(CommandFailed, match="exit 1"):
        own.helm("test", own.name, "--namespace", own.namespace, "--timeout", "60s")


def test_a_second_release_leaves_the_crds_of_the_first_alone(release: Release, own: Release) -> None:
    before = own.kubectl.get("crd", "offices.mikan.dev")["metadata"]

    own.install()

    after = own.kubectl.get("crd", "offices.mikan.dev")["metadata"]
    assert (after["uid"], after["resourceVersion"]) == (before["uid"], before["resourceVersion"])


def test_the_processes_that_all_offices_need_are_scheduled_before_offices(helm: Helm) -> None:
    objects = rendered(helm)

    (made,) = (o for o in objects if o["kind"] == "PriorityClass")
    used = {
        o["metadata"]["name"]: o["spec"]["template"]["spec"].get("priorityClassName")
        for o in objects
        if o["kind"] == "Deployment"
    }
    assert used == dict.fromkeys(("mikan-gateway", "mikan-models", "mikan-operator"), made["metadata"]["name"])
    assert made["value"] > 0


def test_the_release_that_owns_the_crds_updates_them_and_leaves_them_when_it_goes(own: Release) -> None:
    """Other releases of this run use the same CRDs all the while."""
    crd = "crd/offices.mikan.dev"
    everyone = [f"crd/{kind}.mikan.dev" for kind in ("offices", "vaults", "scheduledevents")]
    before = own.kubectl.get(crd)
    own.kubectl("label", *everyone, "app.kubernetes.io/managed-by=Helm", "--overwrite")
    owner = (f"meta.helm.sh/release-name={own.name}", f"meta.helm.sh/release-namespace={own.namespace}")
    own.kubectl("annotate", *everyone, *owner, "--overwrite")
    # As an older chart had it.
    own.kubectl("patch", crd, "--type=json", "-p", '[{"op": "remove", "path": "/spec/names/shortNames"}]')
    try:
        own.install()
        assert own.kubectl.get(crd)["spec"]["names"]["shortNames"] == ["off"]

        own.uninstall()
        after = own.kubectl.get(crd)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["spec"] == before["spec"]
    finally:
        own.kubectl("annotate", *everyone, *(f"{entry.split('=')[0]}-" for entry in owner))
        own.kubectl("label", *everyone, "app.kubernetes.io/managed-by-")
