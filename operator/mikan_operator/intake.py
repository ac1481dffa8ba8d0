"""From a change in the cluster to the offices, vaults and scheduled events that it concerns."""

from typing import Literal, NamedTuple

from mikan_operator import metrics
from mikan_operator.cache import Cache
from mikan_operator.observed import OfficeObject, PodObject, ScheduledEventObject, SecretObject, VaultObject
from mikan_operator.storage.kinds import OFFICE, SCHEDULED_EVENT, SECRET, VAULT, Kind, Manifest
from mikan_operator.workqueue import WorkQueue

Observed = OfficeObject | VaultObject | SecretObject | PodObject | ScheduledEventObject


class Work(NamedTuple):
    """What a worker is to reconcile."""

    kind: Literal["office", "vault", "scheduled-event"]
    name: str


class Intake:
    """Puts changes into the cache and what they concern into the queue."""

    def __init__(self, cache: Cache, queue: WorkQueue[Work]) -> None:
        self._cache = cache
        self._queue = queue

    def observe(self, kind: Kind, manifest: Manifest, *, deleted: bool) -> None:
        """Take over one state of one object; what is no news is dropped."""
        if kind == OFFICE:
            office = OfficeObject.of(manifest)
            news = self._cache.offices.remove(*_id(office)) if deleted else self._cache.offices.put(office)
            item: Observed = office
        elif kind == VAULT:
            item = vault = VaultObject.of(manifest)
            news = self._cache.vaults.remove(*_id(vault)) if deleted else self._cache.vaults.put(vault)
        elif kind == SECRET:
            item = secret = SecretObject.of(manifest)
            news = self._cache.secrets.remove(*_id(secret)) if deleted else self._cache.secrets.put(secret)
        elif kind == SCHEDULED_EVENT:
            events, item = self._cache.scheduled_events, (event := ScheduledEventObject.of(manifest))
            news = events.remove(*_id(event)) if deleted else events.put(event)
        else:
            item = pod = PodObject.of(manifest)
            news = self._cache.pods.remove(*_id(pod)) if deleted else self._cache.pods.put(pod)
        if news:
            self.enqueue(item)

    def enqueue(self, item: Observed) -> None:
        """Have everything reconciled that a changed or vanished object concerns."""
        match item:
            case OfficeObject():
                self._queue.add(Work("office", item.meta.name))
                for name in {item.meta.name, (item.spec and item.spec.vault_name) or item.meta.name}:
                    if self._cache.vaults.get(name):
                        self._queue.add(Work("vault", name))
            case PodObject() if item.office:
                self._queue.add(Work("office", item.office))
            case VaultObject():
                self._vault(item.meta.name)
            case SecretObject():
                for vault in self._cache.vaults.by(item.meta.name):
                    self._vault(vault.meta.name)
            case ScheduledEventObject():
                self._queue.add(Work("scheduled-event", item.meta.name))
        metrics.QUEUE_DEPTH.set(self._queue.depth)

    def enqueue_all(self) -> None:
        """Have everything reconciled."""
        for office in self._cache.offices:
            self._queue.add(Work("office", office.meta.name))
        for vault in self._cache.vaults:
            self._queue.add(Work("vault", vault.meta.name))
        for event in self._cache.scheduled_events:
            self._queue.add(Work("scheduled-event", event.meta.name))

    def _vault(self, name: str) -> None:
        self._queue.add(Work("vault", name))
        for office in self._cache.offices_of_vault(name):
            self._queue.add(Work("office", office.meta.name))


def _id(item: Observed) -> tuple[str, str]:
    return item.meta.name, item.meta.uid
