"""A gateway with everything that scheduled events and agents' requests pass: a real database, routes and renderer, a
platform that a test looks at, and ScheduledEvent objects in memory."""

import copy
import itertools
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

from gateway_doubles import KEY, FakeOffices, RunningServer, key_of
from gateway_edges import FakePlatform
from gateway_server import Gateway
from mikan_api.firings import PATH, Firing, FiringAnswer, FiringBatch, FiringResult, delivery_id
from mikan_api.identity import OfficeAddress, OfficeKey, Platform
from mikan_api.messaging import ConversationKind, ConversationMessage, TrustModel
from mikan_api.resources import OfficeSpec, OfficeStatus
from mikan_api.tokens import sign_request
from mikan_gateway.agents.authentication import Authenticator
from mikan_gateway.agents.hub import AgentHub
from mikan_gateway.agents.routes import agent_routes
from mikan_gateway.events.firings import Firings
from mikan_gateway.events.notices import Notices
from mikan_gateway.events.routes import firing_routes
from mikan_gateway.events.schedules import Schedules
from mikan_gateway.exceptions import ClusterConflict, ClusterError, ClusterNotFound
from mikan_gateway.offices.view import OfficeRecord
from mikan_gateway.ports import ChatPlatform
from mikan_gateway.rendering.outbox import Outbox
from mikan_gateway.rendering.renderer import Renderer
from mikan_gateway.runtime.clock import SystemClock
from mikan_gateway.runtime.conversation_runtime import ConversationRuntime
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.outgoing import OutgoingStore
from mikan_operator_testing.world import NOON


class RecordedOffices(FakeOffices):
    """Offices whose objects can be read, too."""

    def record(self, key: OfficeKey) -> OfficeRecord | None:
        view = self.views.get(key)
        if view is None:
            return None
        spec = OfficeSpec(
            platform=view.address.platform,
            conversation_id=view.address.conversation_id,
            trust_model=TrustModel.MEMBERSHIP,
            display_name="General",
        )
        return OfficeRecord(key, view.uid, "1", view.token_epoch, False, spec, OfficeStatus())


class MemoryObjects:
    """ScheduledEvent objects of a cluster that does as the test says."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.unreachable = False
        self.writes: list[tuple[str, str]] = []
        self._versions = itertools.count(1)

    def put(self, name: str, conversation: str = "C1", **spec: Any) -> None:
        """Somebody else makes one."""
        fields = {"type": "immediate", "platform": "console", "conversationId": conversation, "text": "t", **spec}
        self._store({"metadata": {"name": name}, "spec": fields})

    async def list(self, address: OfficeAddress) -> list[dict[str, Any]]:
        self._reach()
        wanted = (address.platform.value, address.conversation_id)
        found = [o for o in self.objects.values() if (o["spec"]["platform"], o["spec"]["conversationId"]) == wanted]
        return copy.deepcopy(found)

    async def get(self, name: str) -> dict[str, Any]:
        self._reach()
        if name not in self.objects:
            raise ClusterNotFound(name)
        return copy.deepcopy(self.objects[name])

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        self._reach()
        name = manifest["metadata"]["name"]
        if name in self.objects:
            raise ClusterConflict(name)
        self.writes.append(("create", name))
        return self._store(copy.deepcopy(manifest))

    async def patch(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        known = await self.get(name)
        if fields["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            raise ClusterConflict(name)
        self.writes.append(("patch", name))
        spec = {key: value for key, value in (known["spec"] | fields["spec"]).items() if value is not None}
        return self._store(known | {"spec": spec})

    async def delete(self, name: str, uid: str) -> None:
        known = await self.get(name)
        if known["metadata"]["uid"] != uid:
            raise ClusterConflict(name)
        self.writes.append(("delete", name))
        del self.objects[name]

    def _store(self, manifest: dict[str, Any]) -> dict[str, Any]:
        version = str(next(self._versions))
        manifest["metadata"] = {"uid": f"uid-{version}"} | manifest["metadata"] | {"resourceVersion": version}
        manifest["spec"].setdefault("suspend", False)
        self.objects[manifest["metadata"]["name"]] = manifest
        return copy.deepcopy(manifest)

    def _reach(self) -> None:
        if self.unreachable:
            raise ClusterError("connection refused")


class EventGateway(Gateway):
    """`restart` is a new process on the same database; `platform` and `objects` stay."""

    def __init__(self, url: str, spool: Path) -> None:
        super().__init__(url, spool)
        self.offices: RecordedOffices = RecordedOffices()
        self.platform, self.objects = FakePlatform(), MemoryObjects()
        self.platforms: dict[Platform, ChatPlatform] = {Platform.CONSOLE: self.platform}
        self.firings: Firings
        self._renderer: Renderer

    async def start(self) -> None:
        self.database = await Database.open(self._url)
        clock = SystemClock()
        outbox = Outbox(OutgoingStore(self.database), self._log_posted, clock)
        self._renderer = Renderer(self.platforms, outbox, self.spool, clock)
        self.runtime = ConversationRuntime(self.database, self.offices, self._renderer, self.spool)
        self.runtime.desk.offer(
            Notices(self.database, self.offices, self.platforms, self.spool, self.runtime, clock).methods
        )
        self.runtime.desk.offer(Schedules(self.objects, self.offices).methods)
        self.firings = Firings(self.database, self.offices, self.platforms, outbox, self.runtime, clock)
        await self.runtime.start()
        await self.firings.start()
        self.hub = AgentHub(self.runtime.desk)
        routes = agent_routes(Authenticator(lambda: [KEY], self.offices), self.hub, self.spool)
        routes += firing_routes(lambda: [KEY], self.firings)
        self.server = await RunningServer(Starlette(routes=routes)).__aenter__()

    async def stop(self) -> None:
        self.hub.close()
        await self.server.__aexit__(None, None, None)
        await self.firings.close()
        await self.runtime.close()
        await self._renderer.stop()
        await self.database.close()

    async def post(self, body: bytes, authorization: str | None = None) -> httpx.Response:
        """What the operator sends; signed, unless a test has something else."""
        headers = {"Authorization": authorization or f"Bearer {sign_request(KEY, body)}"}
        async with httpx.AsyncClient(base_url=self.server.http, trust_env=False) as client:
            return await client.post(PATH, content=body, headers=headers)

    async def fire(self, *firings: Firing) -> list[FiringResult]:
        """Deliver as the operator does."""
        response = await self.post(FiringBatch(firings=firings).model_dump_json(by_alias=True).encode())
        assert response.status_code == 200, response.text
        return list(FiringAnswer.model_validate_json(response.content).results)

    async def _log_posted(self, office: OfficeKey, message: ConversationMessage) -> int:
        return await self.runtime.log_posted(office, message)


def firing(uid: str = "uid-1", conversation: str = "C1", text: str = "Look around", **fields: Any) -> Firing:
    """One of a console conversation."""
    common: dict[str, Any] = {
        "delivery_id": delivery_id(uid, NOON),
        "name": uid,
        "platform": Platform.CONSOLE,
        "conversation_id": conversation,
        "conversation_kind": ConversationKind.DIRECT,
        "text": text,
        "scheduled_time": NOON,
    }
    return Firing(**{**common, **fields})


__all__ = ["EventGateway", "MemoryObjects", "RecordedOffices", "firing", "key_of"]
