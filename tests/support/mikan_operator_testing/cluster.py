"""Our CRDs in the cluster under test."""

import asyncio

import yaml

from mikan_api import names
from mikan_dev.paths import REPOSITORY
from mikan_operator.exceptions import NotFound
from mikan_operator.storage.kinds import Kind
from mikan_operator.storage.kubernetes import KubernetesApi

CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)


async def install_crds(root: KubernetesApi) -> None:
    """Apply the generated CRDs and wait until they are served; changes nothing where they are as they should be."""
    for file in sorted((REPOSITORY / "crds").glob("*.yaml")):
        document = yaml.safe_load(file.read_text())
        await root.apply(CRD, document["metadata"]["name"], document)
        spoken = document["spec"]["names"]
        await _served(root, Kind(names.GROUP, names.VERSION, spoken["kind"], spoken["plural"]))


async def _served(root: KubernetesApi, kind: Kind) -> None:
    """A kind is served a moment after its definition was accepted."""
    async with asyncio.timeout(30):
        while True:
            try:
                await root.list_all(kind)
            except NotFound:
                await asyncio.sleep(0.1)
            else:
                return
