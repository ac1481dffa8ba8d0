"""Which cluster tests talk to, and our CRDs in it."""

import os
from pathlib import Path

import yaml

from mikan_dev.paths import REPOSITORY, state_dir
from mikan_operator.storage.kinds import Kind
from mikan_operator.storage.kubernetes import KubernetesApi

CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)


def kubeconfig() -> Path:
    """The cluster under test; `make up` brings one up."""
    path = Path(os.environ.get("KUBECONFIG") or state_dir() / "admin.kubeconfig")
    assert path.exists(), f"no cluster: {path} does not exist; run make up"
    return path


async def install_crds(root: KubernetesApi) -> None:
    """Apply the generated CRDs; where they are as they should be this changes nothing."""
    for file in sorted((REPOSITORY / "crds").glob("*.yaml")):
        document = yaml.safe_load(file.read_text())
        await root.apply(CRD, document["metadata"]["name"], document)
