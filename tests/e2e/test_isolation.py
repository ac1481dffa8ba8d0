"""What an agent pod and a sandbox pod can reach, tried from inside them."""

import json
import subprocess
from collections.abc import Callable

import pytest

from mikan_api import names
from mikan_api.identity import OfficeKey
from mikan_cluster.release import Chat, Release
from mikan_dev.paths import CLUSTER_SCRIPTS

OUTSIDE = "203.0.113.10"
NODE = "10.99.0.2"
METADATA = "169.254.169.254"

DIAL = """
import socket, sys
for target in sys.argv[1:]:
    host, port = target.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
        print(target, "open")
    except OSError as error:
        print(target, "closed", type(error).__name__)
"""


@pytest.fixture(scope="module")
def office(release: Release) -> Chat:
    """A conversation whose pods run."""
    chat = Chat(release)
    release.vault(chat.key, {"TOKEN": "t0p"})
    chat.say("run: true")
    return chat


def dial(run: Callable[..., subprocess.CompletedProcess[str]], key: OfficeKey, *targets: str) -> dict[str, str]:
    """Try connections from inside a pod: target -> open or closed."""
    done = run(key, "python3", "-c", DIAL, *targets)
    assert done.returncode == 0, done.stderr
    return {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()}


def service(release: Release, component: str) -> str:
    found = release.kubectl.get("service", f"{release.name}-{component}", "-n", release.namespace)
    return f"{found['spec']['clusterIP']}:8080"


def pod_address(release: Release, component: str) -> str:
    pods = release.kubectl.get("pods", "-n", release.namespace, "-l", f"app.kubernetes.io/component={component}")
    return f"{pods[0]['status']['podIP']}:8080"


def test_a_sandbox_reaches_the_outside_and_nothing_else(release: Release, office: Chat) -> None:
    api = release.kubectl.get("service", "kubernetes", "-n", "default")["spec"]["clusterIP"]
    dns = release.kubectl.get("service", "kube-dns", "-n", "kube-system")["spec"]["clusterIP"]
    agent = release.kubectl.get("pod", names.agent_pod(office.key), "-n", release.offices)["status"]["podIP"]
    inside = [
        f"{api}:443", f"{NODE}:6443", f"{NODE}:10250", f"{dns}:53", f"{agent}:8080", f"{METADATA}:80",
        service(release, "gateway"), service(release, "models"), service(release, "operator"),
        pod_address(release, "gateway"), pod_address(release, "models"), pod_address(release, "operator"),
    ]  # fmt: skip

    found = dial(release.in_sandbox, office.key, f"{OUTSIDE}:80", *inside)

    assert found == {f"{OUTSIDE}:80": "open"} | dict.fromkeys(inside, "closed")


def test_what_a_sandbox_may_not_reach_is_there_to_be_reached(release: Release) -> None:
    """Without this the test above would pass on a dead network."""
    reach = [str(CLUSTER_SCRIPTS / "ctl.sh"), "net", "python3", "-c", DIAL]
    targets = [
        f"{NODE}:6443",
        f"{NODE}:10250",
        f"{METADATA}:80",
        service(release, "gateway"),
        pod_address(release, "models"),
    ]

    done = subprocess.run([*reach, *targets], capture_output=True, text=True, timeout=60, check=True)

    assert [line.split()[1] for line in done.stdout.splitlines()] == ["open"] * len(targets)


def test_a_sandbox_resolves_outside_names_and_no_inside_ones(release: Release, office: Chat) -> None:
    lookup = "import socket,sys; print(socket.gethostbyname(sys.argv[1]))"

    outside = release.in_sandbox(office.key, "python3", "-c", lookup, "outside.test")
    inside = release.in_sandbox(
        office.key, "python3", "-c", lookup, f"{release.name}-gateway.{release.namespace}.svc.cluster.local"
    )

    assert outside.stdout.strip() == OUTSIDE, outside.stderr
    assert inside.returncode != 0


def test_an_agent_reaches_gateway_models_dns_and_the_api_server_and_nothing_else(
    release: Release, office: Chat
) -> None:
    api = release.kubectl.get("service", "kubernetes", "-n", "default")["spec"]["clusterIP"]
    dns = release.kubectl.get("service", "kube-dns", "-n", "kube-system")["spec"]["clusterIP"]
    allowed = [service(release, "gateway"), service(release, "models"), f"{api}:443", f"{dns}:53"]
    denied = [
        service(release, "operator"),
        pod_address(release, "operator"),
        f"{OUTSIDE}:80",
        f"{METADATA}:80",
        f"{NODE}:10250",
    ]

    found = dial(release.in_agent, office.key, *allowed, *denied)

    assert found == dict.fromkeys(allowed, "open") | dict.fromkeys(denied, "closed")


def test_nobody_can_dial_an_agent_or_a_sandbox(release: Release, office: Chat) -> None:
    """Both listen for a moment here, since neither has a port of its own."""
    other = Chat(release)
    other.say("run: true")
    listen = (
        "import socket; s = socket.create_server(('0.0.0.0', 7777)); s.settimeout(20); "
        "print('listening', flush=True); s.accept()"
    )
    for pod, container in ((names.agent_pod(office.key), "agent"), (names.sandbox_pod(office.key), "sandbox")):
        address = release.kubectl.get("pod", pod, "-n", release.offices)["status"]["podIP"]
        argv = [
            str(release.kubectl.program), f"--kubeconfig={release.kubectl.kubeconfig}", "exec", "-n", release.offices,
            pod, "-c", container, "--", "python3", "-c", listen,
        ]  # fmt: skip
        server = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            assert server.stdout.readline().strip() == "listening"
            for run in (release.in_sandbox, release.in_agent):
                assert dial(run, other.key, f"{address}:7777") == {f"{address}:7777": "closed"}
        finally:
            server.kill()
            server.communicate()


def test_the_agent_pod_mounts_no_vault_and_may_read_no_secret(release: Release, office: Chat) -> None:
    pod = release.kubectl.get("pod", names.agent_pod(office.key), "-n", release.offices)
    secret_volumes = [v["secret"]["secretName"] for v in pod["spec"]["volumes"] if "secret" in v]
    account = f"system:serviceaccount:{release.offices}:{names.agent_pod(office.key)}"
    can = ("auth", "can-i", "-n", release.offices, f"--as={account}")

    assert secret_volumes == [names.token_secret(office.key)]
    assert "t0p" not in json.dumps(pod)
    assert release.in_agent(office.key, "sh", "-c", "grep -rl t0p /mikan /workspace /tmp 2>/dev/null").stdout == ""
    for verb in ("get", "list", "watch"):
        assert release.kubectl(*can, verb, "secrets", check=False).strip() == "no"
    assert release.kubectl(*can, "get", f"secrets/{office.key}", check=False).strip() == "no"
    assert release.kubectl(*can, "create", "pods", check=False).strip() == "no"
    assert (
        release.kubectl(*can, "create", f"pods/{names.sandbox_pod(office.key)}", "--subresource=exec").strip() == "yes"
    )
    other = names.sandbox_pod(Chat(release).key)
    assert release.kubectl(*can, "create", f"pods/{other}", "--subresource=exec", check=False).strip() == "no"


def test_the_sandbox_has_no_service_account_token_and_no_other_offices_files(release: Release, office: Chat) -> None:
    pod = release.kubectl.get("pod", names.sandbox_pod(office.key), "-n", release.offices)
    found = release.in_sandbox(
        office.key,
        "sh",
        "-c",
        "ls -d /var/run/secrets /mikan/tokens /mikan/shared 2>/dev/null; ls /workspace; ls /mikan/records; id -u",
    )

    assert pod["spec"]["automountServiceAccountToken"] is False
    assert found.stdout.split() == [office.key, office.key, "10001"]
    for which in ("agent", "sandbox"):
        name = names.agent_pod(office.key) if which == "agent" else names.sandbox_pod(office.key)
        spec = release.kubectl.get("pod", name, "-n", release.offices)["spec"]
        for container in spec["containers"] + spec.get("initContainers", []):
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["enableServiceLinks"] is False
