"""Office objects as an API server sends them, and an API that plays one."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from mikan_api.identity import OfficeAddress, Platform
from mikan_gateway.exceptions import ClusterConflict, ClusterError, ClusterNotFound
from mikan_gateway.offices.api import OfficeApi


def manifest(conversation: str = "C1", version: int = 1, uid: str = "uid-1", **parts: Any) -> dict[str, Any]:
    """An Office of the console. ``spec``, ``status``, ``metadata`` and ``name`` change it."""
    address = OfficeAddress(Platform.CONSOLE, conversation)
    metadata = {"name": parts.get("name", address.key), "uid": uid, "resourceVersion": str(version)}
    spec = {"platform": "console", "conversationId": conversation, "trustModel": "membership"}
    return {
        "metadata": metadata | parts.get("metadata", {}),
        "spec": spec | parts.get("spec", {}),
        "status": parts.get("status", {}),
    }


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    """A condition."""
    time = "2026-01-02T03:04:05Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time}


class PlayedApi(OfficeApi):
    """An API server with one kind of object. ``failures`` are raised by the next requests."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.failures: list[Exception] = []
        self.requests: list[str] = []
        self.statuses: list[tuple[str, dict[str, Any]]] = []
        self.events: asyncio.Queue[tuple[str, dict[str, Any]] | Exception | None] = asyncio.Queue()
        self.version = 100

    def put(self, found: dict[str, Any]) -> dict[str, Any]:
        """Have an object exist, unseen by a watch."""
        self.objects[found["metadata"]["name"]] = found
        return found

    async def list(self) -> tuple[list[dict[str, Any]], str]:
        self._ask("list")
        return list(self.objects.values()), str(self.version)

    async def watch(self, version: str, seconds: int, silence: float) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        self._ask(f"watch {version}")
        while (event := await self.events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event

    async def get(self, name: str) -> dict[str, Any]:
        self._ask("get")
        if name not in self.objects:
            raise ClusterNotFound("no such office")
        return self.objects[name]

    async def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        self._ask("create")
        name = manifest["metadata"]["name"]
        if name in self.objects:
            raise ClusterConflict("exists")
        self.version += 1
        metadata = {"name": name, "uid": f"uid-{self.version}", "resourceVersion": str(self.version)}
        return self.put({"metadata": metadata, "spec": dict(manifest["spec"])})

    async def patch_spec(self, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        self._ask("patch")
        self.version += 1
        found = self.objects[name]
        metadata = found["metadata"] | {"resourceVersion": str(self.version)}
        merged = {k: v for k, v in (found["spec"] | spec).items() if v is not None}
        return self.put({"metadata": metadata, "spec": merged})

    async def apply_status(self, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
        self._ask("status")
        self.statuses.append((name, dict(status)))
        return {}

    def _ask(self, request: str) -> None:
        self.requests.append(request)
        if self.failures:
            raise self.failures.pop(0)


AWAY = ClusterError("connection refused")
