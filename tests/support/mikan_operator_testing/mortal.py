"""An operator that starts anew whenever it dies, on a real API server with a kubelet that is played.

Pods ask for a node that there is not, so nothing of them runs; what a kubelet would report of them is written for it.
The scheduler, the garbage collector and all else are the cluster's own.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from forked import Mother
from mikan_api import names
from mikan_operator.builders.cleanup_pod import COMPONENT as CLEANUP
from mikan_operator.exceptions import ApiError
from mikan_operator.storage.kinds import OFFICE, POD, ROLE, ROLE_BINDING, SECRET, SERVICE_ACCOUNT, Kind, Manifest
from mikan_operator_testing.live import Live, namespaces, write_inputs
from supervised import Supervised

CHILDREN = (SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SECRET, POD)


class MortalWorld:
    """Offices, and what there is of them."""

    def __init__(self, live: Live, operator: Supervised) -> None:
        self.live, self.operator = live, operator

    @property
    def deaths(self) -> Sequence[int]:
        """How operators ended that nobody ended."""
        return self.operator.ends

    async def own_children(self, office: Manifest) -> list[tuple[str, str]]:
        """Kind and name of every object that an Office owns, in order."""
        found = []
        for kind in CHILDREN:
            for item in await self.live.offices.list_all(kind):
                owners = item["metadata"].get("ownerReferences") or ()
                if any(owner["uid"] == office["metadata"]["uid"] for owner in owners):
                    found.append((kind.kind, item["metadata"]["name"]))
        return sorted(found)

    async def make_child(self, kind: Kind, name: str, owner: Manifest | None, **content: Any) -> Manifest:
        """Make an object that has a name which the operator wants, for an Office or for nobody we know."""
        metadata: dict[str, Any] = {"name": name, "labels": {"made-by": "somebody"}}
        if owner is not None:
            reference = {"apiVersion": OFFICE.api_version, "kind": OFFICE.kind, "name": owner["metadata"]["name"]}
            metadata["ownerReferences"] = [reference | {"uid": owner["metadata"]["uid"], "controller": True}]
        return await self.live.make(
            kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata} | content
        )


@asynccontextmanager
async def mortal(api: Any, mother: Mother, directory: Path, kubeconfig: Path, point: str) -> AsyncIterator[MortalWorld]:
    """A world whose operator is not started yet, and armed for its first life."""
    write_inputs(directory, "localhost/helper:none", idleTimeout="1h")
    file = directory / "operator.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"nodeSelector": {"mikan.dev/no-such-node": "true"}}))
    async with namespaces(api, directory, "localhost/helper:none", "operator-kill") as live:
        operator = Supervised(mother, live.environment(kubeconfig), directory / "operator.log", point)
        kubelet = asyncio.create_task(_play_kubelet(live))
        try:
            yield MortalWorld(live, operator)
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)
            await operator.stop()


async def _play_kubelet(live: Live) -> None:
    """Report pods as ready, and the ones that clean up as done."""
    while True:
        for pod in await live.offices.list_all(POD):
            metadata = pod["metadata"]
            phase = "Succeeded" if metadata["labels"].get(names.LABEL_COMPONENT) == CLEANUP else "Running"
            if pod["status"].get("phase") != phase and not metadata.get("deletionTimestamp"):
                await _report(live, metadata["name"], phase)
        await asyncio.sleep(0.1)


async def _report(live: Live, name: str, phase: str) -> None:
    status = {"status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}}
    path = POD.path(live.offices_namespace, name, "status")
    with suppress(ApiError):  # gone meanwhile, or changed: seen again in a moment
        await live.offices._request("PATCH", path, None, status, "application/merge-patch+json")
