"""Our CRDs in the cluster under test."""

import yaml

from mikan_dev.paths import REPOSITORY
from mikan_operator.storage.kinds import Kind
from mikan_operator.storage.kubernetes import KubernetesApi

CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)


async def install_crds(root: KubernetesApi) -> None:
    """Apply the generated CRDs; where they are as they should be this changes nothing."""
    for file in sorted((REPOSITORY / "crds").glob("*.yaml")):
        document = yaml.safe_load(file.read_text())
        await root.apply(CRD, document["metadata"]["name"], document)
