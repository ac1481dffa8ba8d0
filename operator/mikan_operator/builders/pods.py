"""What agent and sandbox pods have in common: restricted pod security, placement, volumes and mounts.

Source: Kubernetes pod security standards, profile "restricted"; architecture section 7.
"""

from typing import Any

from mikan_api import names
from mikan_api.packages import Package
from mikan_operator.builders.plan import UID, OfficePlan, digest, metadata
from mikan_operator.storage.kinds import POD, Manifest

OFFICES_VOLUME = "offices"
SHARED_VOLUME = "shared"
PACKAGES_VOLUME = "packages"
SUPPORT_SUBPATH = "support"
AGENTS_SUBPATH = "agents"

_EVICTABLE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}


def pod(plan: OfficePlan, name: str, component: str, spec: Manifest, annotations: dict[str, str]) -> Manifest:
    """A pod around its own ``spec``, with the fingerprint of what only a new pod can change."""
    installation = plan.installation
    whole: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostname": component,
        "restartPolicy": "Always",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UID,
            "runAsGroup": UID,
            "fsGroup": UID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **spec,
    }
    if installation.images.pull_secrets:
        whole["imagePullSecrets"] = [{"name": secret} for secret in installation.images.pull_secrets]
    if installation.node_selector:
        whole["nodeSelector"] = dict(installation.node_selector)
    if installation.tolerations:
        whole["tolerations"] = [dict(toleration) for toleration in installation.tolerations]
    meta = metadata(plan, name, component)
    meta["annotations"] = {**_EVICTABLE, names.ANNOTATION_BAKED: digest(whole), **annotations}
    return {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": meta, "spec": whole}


def container(plan: OfficePlan, name: str, image: str, *, read_only_root: bool, **fields: Any) -> Manifest:
    """A container under the restricted profile."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": plan.installation.images.pull_policy,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": read_only_root,
        },
        **fields,
    }


def claim_volume(name: str, claim: str) -> Manifest:
    """A volume of a PersistentVolumeClaim."""
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def empty_volume(name: str, size: str = "") -> Manifest:
    """A directory that lives and dies with the pod."""
    return {"name": name, "emptyDir": {"sizeLimit": size} if size else {}}


def mount(volume: str, path: str, *, sub_path: str = "", read_only: bool = False) -> Manifest:
    """A directory of a volume. Never of a single file: those are not replaced when the volume changes."""
    fields: Manifest = {"name": volume, "mountPath": path}
    if sub_path:
        fields["subPath"] = sub_path
    if read_only:
        fields["readOnly"] = True
    return fields


def skills_mount(package: Package) -> Manifest:
    """A package's skills, read-only and at one path in agent and sandbox."""
    path = f"{names.PACKAGES}/{package.slug}/skills"
    return mount(PACKAGES_VOLUME, path, sub_path=f"skills/{package.source.skills}", read_only=True)
