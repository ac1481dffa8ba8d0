"""The sandbox pod: where an office's commands run. Its Vault is mounted here and nowhere else; it has no API token.

An init container copies the helper in, so that any image will do; the helper is the first process.
Mounts by door policy: the table of architecture section 6.
"""

import json

from mikan_api import layout, names
from mikan_api.sandbox_mode import SandboxKind
from mikan_api.settings import Layout, Resources
from mikan_operator.builders import pods
from mikan_operator.builders.plan import MountedVault, OfficePlan, environment
from mikan_operator.storage.kinds import Manifest
from mikan_operator.vault_mounts import DEFAULT_MODE

HOME = "/home/mikan"
DEFAULT_IMAGE = "mikan-sandbox"
"""What stands in a sandbox mode for the image of the installation, which has our user already."""
GRACE_SECONDS = 5
_BIN = "/mikan/bin"
_RUN = "/mikan/run"
_ACCOUNTS = "/mikan/accounts"
_VAULT_DATA = f"{names.VAULT}/data"
_VAULT_MODE = 0o440

_LINKS = """
import os, sys
for pair in sys.argv[1:]:
    link, _, target = pair.partition("=")
    if not os.path.lexists(link):
        os.symlink(target, link)
"""


def sandbox_pod(plan: OfficePlan) -> Manifest:
    """The manifest of an office's sandbox pod."""
    helper_mounts = [pods.mount("bin", _BIN)]
    init = [
        pods.container(
            plan,
            "install",
            plan.installation.images.sandbox_helper,
            read_only_root=True,
            args=["install", _BIN],
            volumeMounts=helper_mounts,
        )
    ]
    if _needs_accounts(plan):
        init.append(_accounts_container(plan))
    if _sees_shared(plan):
        init.append(_links_container(plan))
    main = pods.container(
        plan,
        names.SANDBOX_CONTAINER,
        sandbox_image(plan),
        read_only_root=False,
        command=[names.HELPER, "serve"],
        env=_environment(plan),
        resources=_resources(plan.effective.sandbox_resources),
        volumeMounts=_mounts(plan),
        workingDir=plan.paths.directory,
    )
    spec: Manifest = {
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": list(plan.installation.sandbox.nameservers)},
        "initContainers": init,
        "containers": [main],
        "volumes": _volumes(plan),
    }
    if plan.runtime_class:
        spec["runtimeClassName"] = plan.runtime_class
    annotations = {names.ANNOTATION_VAULT_VERSION: plan.vault.secret_version} if plan.vault else {}
    return pods.pod(plan, names.sandbox_pod(plan.key), names.COMPONENT_SANDBOX, spec, annotations)


def sandbox_image(plan: OfficePlan) -> str:
    """The image that a mode names; other modes than ``image`` use the installation's."""
    mode = plan.effective.sandbox_mode
    if mode.kind is SandboxKind.IMAGE and mode.argument != DEFAULT_IMAGE:
        return mode.argument
    return plan.installation.images.sandbox


def _needs_accounts(plan: OfficePlan) -> bool:
    return sandbox_image(plan) != plan.installation.images.sandbox


def _sees_shared(plan: OfficePlan) -> bool:
    return plan.effective.door_policy.layout is not Layout.CONVERSATION


def _sees_all(plan: OfficePlan) -> bool:
    return plan.effective.door_policy.layout is Layout.FULL


def _accounts_container(plan: OfficePlan) -> Manifest:
    """Writes copies of the image's own passwd and group with an entry for our user."""
    return pods.container(
        plan,
        "accounts",
        sandbox_image(plan),
        read_only_root=False,
        command=[names.HELPER, "passwd", _ACCOUNTS],
        env=environment({"HOME": HOME}),
        volumeMounts=[pods.mount("bin", _BIN), pods.mount("accounts", _ACCOUNTS)],
    )


def _links_container(plan: OfficePlan) -> Manifest:
    """Links the reserved names at the workspace root, from an image that is known to have Python."""
    links = {link: target for link, target in layout.Workspace().links.items() if _linked(plan, link.name)}
    return pods.container(
        plan,
        "links",
        plan.installation.images.agent,
        read_only_root=True,
        command=["python3", "-c", _LINKS, *(f"{link}={target}" for link, target in sorted(links.items()))],
        volumeMounts=[_workspace_mount(plan)],
    )


def _linked(plan: OfficePlan, name: str) -> bool:
    return name != "agents" or _sees_all(plan)


def _environment(plan: OfficePlan) -> list[Manifest]:
    values = plan.effective.sandbox_env | {"HOME": HOME}
    return environment(values | _vault_lists(plan.vault))


def _vault_lists(vault: MountedVault | None) -> dict[str, str]:
    if vault is None:
        return {"MIKAN_VAULT_ENV": "", "MIKAN_VAULT_FILES": ""}
    mounts = vault.mounts
    files = [{"key": f.key, "path": f"~/{f.path}", "mode": f.mode} for f in mounts.files]
    return {
        "MIKAN_VAULT_ENV": "*" if mounts.every_variable else ",".join(mounts.variables),
        "MIKAN_VAULT_FILES": json.dumps(files) if files else "",
    }


def _workspace_mount(plan: OfficePlan) -> Manifest:
    if _sees_all(plan):
        return pods.mount(pods.OFFICES_VOLUME, names.WORKSPACE, sub_path="offices")
    return pods.mount("workspace", names.WORKSPACE)


def _mounts(plan: OfficePlan) -> list[Manifest]:
    key, full = plan.key, _sees_all(plan)
    # The own directory is named even where all are mounted: naming it is what has it made, with the right owner.
    mounts = [
        _workspace_mount(plan),
        pods.mount(pods.OFFICES_VOLUME, plan.paths.directory, sub_path=layout.office_subpath(key)),
    ]
    if full:
        mounts.append(pods.mount(pods.OFFICES_VOLUME, names.RECORDS, sub_path="records", read_only=True))
    else:
        history = layout.history_subpath(key)
        mounts.append(pods.mount(pods.OFFICES_VOLUME, plan.paths.history, sub_path=history, read_only=True))
    if _sees_shared(plan):
        mounts.append(pods.mount(pods.SHARED_VOLUME, f"{names.SHARED}/support", sub_path=pods.SUPPORT_SUBPATH))
    if full:
        mounts.append(
            pods.mount(pods.SHARED_VOLUME, f"{names.SHARED}/agents", sub_path=pods.AGENTS_SUBPATH, read_only=True)
        )
    mounts += map(pods.skills_mount, plan.packages)
    if plan.vault:
        mounts.append(pods.mount("vault", _VAULT_DATA, read_only=True))
    if _needs_accounts(plan):
        # The one exception to "directories only": these two never change while the pod lives.
        for file in ("passwd", "group"):
            mounts.append(pods.mount("accounts", f"/etc/{file}", sub_path=file, read_only=True))
    own = {"bin": _BIN, "run": _RUN, "home": HOME, "tmp": "/tmp"}  # noqa: S108  the pod's own
    return mounts + [pods.mount(volume, path, read_only=volume == "bin") for volume, path in own.items()]


def _volumes(plan: OfficePlan) -> list[Manifest]:
    claims = plan.installation.claims
    volumes = [
        *([] if _sees_all(plan) else [pods.empty_volume("workspace")]),
        pods.claim_volume(pods.OFFICES_VOLUME, claims.offices),
        *(pods.empty_volume(name) for name in ("bin", "run", "home", "tmp")),
    ]
    if _sees_shared(plan):
        volumes.append(pods.claim_volume(pods.SHARED_VOLUME, claims.shared))
    if plan.packages:
        volumes.append(pods.claim_volume(pods.PACKAGES_VOLUME, claims.packages))
    if plan.vault:
        volumes.append(_vault_volume(plan.vault))
    if _needs_accounts(plan):
        volumes.append(pods.empty_volume("accounts"))
    return volumes


def _vault_volume(vault: MountedVault) -> Manifest:
    """The whole Secret as a directory, never optional: no command runs with half a vault."""
    secret: Manifest = {"secretName": vault.secret_name, "defaultMode": _VAULT_MODE, "optional": False}
    special = {f.key: int(f.mode, 8) for f in vault.mounts.files if f.mode.zfill(4) != DEFAULT_MODE}
    if special:
        # With modes of their own every key must be listed; one that is added later then needs a new pod.
        keys = sorted({*vault.mounts.variables, *(f.key for f in vault.mounts.files)})
        secret["items"] = [{"key": key, "path": key, "mode": special.get(key, _VAULT_MODE)} for key in keys]
    return {"name": "vault", "secret": secret}


def _resources(resources: Resources) -> Manifest:
    return {
        "requests": {"cpu": resources.cpu_request, "memory": resources.memory_request},
        "limits": {
            "cpu": resources.cpu_limit,
            "memory": resources.memory_limit,
            "ephemeral-storage": resources.ephemeral_storage_limit,
        },
    }
