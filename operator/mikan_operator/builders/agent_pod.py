"""The agent pod: one process, its office's directories, its tokens, and no credential of anybody else.

No probe: the agent dials the gateway, and a probe period would only add to the cold start (architecture section 4).
"""

from mikan_api import layout, names
from mikan_api.packages import PathSource, build_declared
from mikan_api.settings import Layout
from mikan_operator.builders import pods
from mikan_operator.builders.plan import OfficePlan, environment
from mikan_operator.observed import ANNOTATION_TOKEN_VERSION
from mikan_operator.storage.kinds import Manifest

GRACE_SECONDS = 30
"""An agent told to end hands back what it has not started and lets running work end."""
_SERVICE_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607


def agent_pod(plan: OfficePlan, token_version: str) -> Manifest:
    """The manifest of an office's agent pod."""
    agent = pods.container(
        plan,
        names.AGENT_CONTAINER,
        plan.installation.images.agent,
        read_only_root=True,
        env=_environment(plan),
        volumeMounts=_mounts(plan),
    )
    if plan.installation.agent.resources:
        agent["resources"] = plan.installation.agent.resources
    spec = {
        "serviceAccountName": names.agent_pod(plan.key),
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "containers": [agent],
        "volumes": _volumes(plan),
    }
    annotations = {ANNOTATION_TOKEN_VERSION: token_version}
    return pods.pod(plan, names.agent_pod(plan.key), names.COMPONENT_AGENT, spec, annotations)


def _environment(plan: OfficePlan) -> list[Manifest]:
    values = {
        "MIKAN_OFFICE_PLATFORM": plan.address.platform.value,
        "MIKAN_OFFICE_CONVERSATION": plan.address.conversation_id,
        "MIKAN_GATEWAY_URL": plan.installation.gateway_url,
        "MIKAN_MODELS_URL": plan.installation.models_url,
        "MIKAN_TOKENS_DIR": names.TOKENS,
        "MIKAN_SANDBOX_MODE": str(plan.effective.sandbox_mode),
        "MIKAN_SANDBOX_POD": names.sandbox_pod(plan.key) if plan.has_sandbox else "",
        "MIKAN_LOG_LEVEL": plan.installation.agent.log_level,
    }
    if plan.effective.packages:
        values["MIKAN_PACKAGES"] = build_declared(plan.effective.packages)
    fields = {"MIKAN_NAMESPACE": "namespace", "MIKAN_POD_NAME": "name", "MIKAN_POD_UID": "uid"}
    downward = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{field}"}}} for name, field in fields.items()
    ]
    return environment(values) + downward


def _mounts(plan: OfficePlan) -> list[Manifest]:
    key = plan.key
    mounts = [
        pods.mount("workspace", names.WORKSPACE),
        pods.mount(pods.OFFICES_VOLUME, plan.paths.directory, sub_path=layout.office_subpath(key)),
        pods.mount(pods.OFFICES_VOLUME, plan.paths.records, sub_path=layout.records_subpath(key)),
        # The sandbox mounts this directory too. As a mount point it can't be replaced from in here by a link to what
        # belongs to another office, which the kubelet would follow.
        pods.mount(pods.OFFICES_VOLUME, plan.paths.history, sub_path=layout.history_subpath(key)),
        pods.mount("tokens", names.TOKENS, read_only=True),
        pods.mount("service-account", _SERVICE_ACCOUNT_PATH, read_only=True),
        pods.mount("tmp", "/tmp"),  # noqa: S108  the pod's own
    ]
    if plan.effective.door_policy.layout is not Layout.CONVERSATION:
        support, agents = f"{names.SHARED}/support", f"{names.SHARED}/agents"
        mounts.append(pods.mount(pods.SHARED_VOLUME, support, sub_path=pods.SUPPORT_SUBPATH))
        mounts.append(pods.mount(pods.SHARED_VOLUME, agents, sub_path=pods.AGENTS_SUBPATH, read_only=True))
    return mounts + _package_mounts(plan)


def _package_mounts(plan: OfficePlan) -> list[Manifest]:
    """Code of packages goes to agents only, and read-only; what extensions share is theirs to write."""
    mounts = [
        pods.mount(pods.PACKAGES_VOLUME, f"{names.PACKAGES}/{directory}", sub_path=directory, read_only=True)
        for directory in sorted(
            {"local" if isinstance(package.source, PathSource) else "checkouts" for package in plan.packages}
        )
    ]
    for package in plan.packages:
        data = f"data/{package.slug}"
        mounts += [
            pods.skills_mount(package),
            pods.mount(pods.PACKAGES_VOLUME, f"{names.PACKAGES}/{data}", sub_path=data),
            pods.mount(f"extension-{package.slug}", f"{names.EXTENSION_SECRETS}/{package.slug}", read_only=True),
        ]
    return mounts


def _volumes(plan: OfficePlan) -> list[Manifest]:
    claims = plan.installation.claims
    volumes = [
        pods.empty_volume("workspace"),
        pods.claim_volume(pods.OFFICES_VOLUME, claims.offices),
        {"name": "tokens", "secret": {"secretName": names.token_secret(plan.key), "defaultMode": 0o440}},
        _service_account_volume(),
        pods.empty_volume("tmp", "256Mi"),
    ]
    if plan.effective.door_policy.layout is not Layout.CONVERSATION:
        volumes.append(pods.claim_volume(pods.SHARED_VOLUME, claims.shared))
    if plan.packages:
        volumes.append(pods.claim_volume(pods.PACKAGES_VOLUME, claims.packages))
    return volumes + [_extension_secret(package.slug) for package in plan.packages]


def _extension_secret(slug: str) -> Manifest:
    """A package's Secret as a directory; most have none, and one that is made later shows without a new pod."""
    secret = {"secretName": names.extension_secret(slug), "defaultMode": 0o440, "optional": True}
    return {"name": f"extension-{slug}", "secret": secret}


def _service_account_volume() -> Manifest:
    """What automounting would give, spelled out, since that is switched off for the pod."""
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
            }
        },
    ]
    return {"name": "service-account", "projected": {"defaultMode": 0o440, "sources": sources}}
