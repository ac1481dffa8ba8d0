"""The operator's reconcilers over a store in memory, with a clock that only the test moves."""

from datetime import UTC, datetime, timedelta
from typing import Any

from mikan_api import names
from mikan_api.settings import Settings
from mikan_operator.cache import Cache
from mikan_operator.inputs import Inputs, TokenKeys
from mikan_operator.installation import Agent, Claims, Images, Installation, Sandbox
from mikan_operator.intake import Intake, Work
from mikan_operator.reconcile.children import Children
from mikan_operator.reconcile.events import EventRecorder
from mikan_operator.reconcile.offices import OfficeReconciler
from mikan_operator.reconcile.retention import Retention
from mikan_operator.reconcile.scheduled_events import ScheduledEventReconciler
from mikan_operator.reconcile.vault_binding import VaultInspector
from mikan_operator.reconcile.vaults import VaultReconciler
from mikan_operator.storage.kinds import EVENT, OFFICE, POD, SCHEDULED_EVENT, SECRET, VAULT, Kind, Manifest
from mikan_operator.workqueue import WorkQueue
from mikan_operator_testing.gateway import PlayedGateway
from mikan_operator_testing.live import conditions, office
from mikan_operator_testing.memory import MemoryStore

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
INSTALLATION = Installation(
    images=Images(
        agent="registry.test/agent:1",
        sandbox="registry.test/sandbox:1",
        sandbox_helper="registry.test/helper:1",
        pull_secrets=("registry",),
    ),
    gateway_url="http://mikan-gateway.mikan.svc:8080",
    models_url="http://mikan-models.mikan.svc:8080",
    claims=Claims(),
    agent=Agent(resources={"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}}),
    sandbox=Sandbox(nameservers=("1.1.1.1", "8.8.8.8")),
    node_selector={"disk": "fast"},
    tolerations=({"key": "offices", "operator": "Exists"},),
)
KEYS = TokenKeys(b"g" * 32, b"m" * 32)
WATCHED = (OFFICE, VAULT, SECRET, POD, SCHEDULED_EVENT)


class _Pending(WorkQueue[Work]):
    """A queue that a test empties by hand."""

    def __init__(self) -> None:
        super().__init__(self._never)
        self.pending: list[Work] = []

    async def _never(self, key: Work) -> float | None:
        raise AssertionError(f"{key} is for the test to work on")

    def add(self, key: Work) -> None:
        if key not in self.pending:
            self.pending.append(key)


class World:
    """An offices namespace, its operator, and the hands of everybody else."""

    def __init__(self, **settings: Any) -> None:
        self.now = NOON
        self.inputs = Inputs(Settings.model_validate(settings), KEYS)
        self.store = MemoryStore(lambda: self.now)
        self.cache = Cache()
        self.queue = _Pending()
        self.intake = Intake(self.cache, self.queue)
        self.store.changed = self._changed
        self.children = Children(self.cache, self.store, "offices")
        self.again: dict[str, float | None] = {}
        self.gateway = PlayedGateway()
        self.firing: list[str] = []
        """Names of scheduled events that are to be delivered."""
        self.fires_after: dict[str, float] = {}
        """Name of a scheduled event -> in how many seconds it is to be delivered, as was last said."""
        self._restart()

    def _restart(self) -> None:
        inspector = VaultInspector(self.cache, self.store)
        retention = Retention(self.cache, self.store, self.children, INSTALLATION)
        events = EventRecorder(self.store, self.clock, "offices", "operator-0")
        self.offices = OfficeReconciler(
            self.cache,
            self.store,
            self.children,
            retention,
            inspector,
            events,
            lambda: self.inputs,
            INSTALLATION,
            self.clock,
        )
        self.vaults = VaultReconciler(self.cache, self.store, inspector, events, self.clock)
        self.firing.clear()
        self.scheduled_events = ScheduledEventReconciler(
            self.cache,
            self.store,
            self.gateway,
            events,
            self.clock,
            fire=self._fire,
            fired=lambda name: self.queue.add(Work("scheduled-event", name)),
        )

    def _fire(self, name: str, seconds: float = 0.0) -> None:
        if seconds > 0:
            self.fires_after[name] = seconds
        elif name not in self.firing:
            self.firing.append(name)

    def restart(self) -> None:
        """A new operator process: nothing remembered but what the cluster says."""
        self.children = Children(self.cache, self.store, "offices")
        self._restart()
        self.intake.enqueue_all()

    def clock(self) -> datetime:
        """The wall clock of this world."""
        return self.now

    def _changed(self, kind: Kind, manifest: Manifest, deleted: bool) -> None:
        labels = manifest["metadata"].get("labels") or {}
        if kind in WATCHED and (kind != SECRET or labels.get(names.LABEL_VAULT) == "true"):
            self.intake.observe(kind, manifest, deleted=deleted)

    async def settle(self) -> None:
        """Reconcile until nothing is left to do."""
        for _ in range(200):
            if not self.queue.pending:
                if not self.firing:
                    return
                name = self.firing.pop(0)
                self.again[name] = await self.scheduled_events.fire(name)
                continue
            work = self.queue.pending.pop(0)
            if work.kind == "office":
                self.again[work.name] = await self.offices.reconcile(work.name)
            elif work.kind == "scheduled-event":
                self.again[work.name] = await self.scheduled_events.reconcile(work.name)
            else:
                await self.vaults.reconcile(work.name)
        raise AssertionError(f"never settles: {self.queue.pending}")

    async def pass_time(self, seconds: float) -> None:
        """Move the clock and look at everything again, as the due timers do."""
        self.now += timedelta(seconds=seconds)
        self.intake.enqueue_all()
        await self.settle()

    async def open(self, conversation: str = "general", **spec: Any) -> str:
        """The gateway makes an Office; its pods become ready. Returns the key."""
        made = self.store.put(OFFICE, office(conversation, **spec))
        key: str = made["metadata"]["name"]
        await self.settle()
        for prefix in ("a", "s"):
            if self.store.peek(POD, f"{prefix}-{key}"):
                self.ready(f"{prefix}-{key}")
        await self.settle()
        return key

    def ready(self, pod: str) -> None:
        """The kubelet reports a pod as ready."""
        self.store.set_status(POD, pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}])

    def activity(self, key: str, *, running: int = 0) -> None:
        """The gateway reports activity now."""
        self.store.set_status(OFFICE, key, lastActivityTime=self.now.isoformat(), runningSessions=running)

    def conditions(self, key: str) -> dict[str, tuple[str, str]]:
        """Condition type -> (status, reason)."""
        found = self.store.peek(OFFICE, key)
        assert found is not None
        return conditions(found)

    def message(self, key: str, kind: str = "Ready") -> str:
        """The message of a condition."""
        found = self.store.peek(OFFICE, key)
        assert found is not None
        return str(next(c.get("message", "") for c in found["status"]["conditions"] if c["type"] == kind))

    def events(self) -> list[tuple[str, str]]:
        """(object, reason) of every Event."""
        found = [self.store.peek(EVENT, name) for name in self.store.names(EVENT)]
        return [(event["regarding"]["name"], event["reason"]) for event in found if event]
