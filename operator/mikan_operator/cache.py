"""The operator's picture of the cluster: filled by one listing, kept by watches, checked by later listings.

Kopf is edge-triggered and says nothing of an object that vanished while a watch was down. So decisions are made from
this picture, and `replace` (from `mikan_operator.resync`) corrects it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from mikan_operator.observed import Meta, OfficeObject, PodObject, ScheduledEventObject, SecretObject, VaultObject


class _HasMeta(Protocol):
    @property
    def meta(self) -> Meta: ...


Item = TypeVar("Item", bound=_HasMeta)


class Store(Generic[Item]):
    """Objects of one kind by name, with one index."""

    def __init__(self, index: Callable[[Item], str]) -> None:
        self._items: dict[str, Item] = {}
        self._index = index
        self._by: defaultdict[str, set[str]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(list(self._items.values()))

    def get(self, name: str) -> Item | None:
        """The object of a name."""
        return self._items.get(name)

    def by(self, value: str) -> list[Item]:
        """Objects whose index has this value, in order of their names."""
        return [self._items[name] for name in sorted(self._by.get(value, ()))]

    def put(self, item: Item) -> bool:
        """Take over a state of an object. Returns whether it is news; an older state than the known one is not."""
        name = item.meta.name
        known = self._items.get(name)
        if known is not None:
            if known.meta.uid == item.meta.uid and known.meta.version == item.meta.version:
                return False
            if item.meta.is_older_than(known.meta):
                return False
            self._unindex(known)
        self._items[name] = item
        self._by[self._index(item)].add(name)
        return True

    def overwrite(self, item: Item) -> None:
        """Note what was done to an object before a watch tells its new state."""
        known = self._items.get(item.meta.name)
        if known is not None and known.meta.uid == item.meta.uid:
            self._unindex(known)
            self._items[item.meta.name] = item
            self._by[self._index(item)].add(item.meta.name)

    def remove(self, name: str, uid: str) -> bool:
        """Forget an object. Returns whether it was known; a namesake that came later stays."""
        known = self._items.get(name)
        if known is None or known.meta.uid != uid:
            return False
        self._unindex(known)
        del self._items[name]
        return True

    def replace(self, items: Iterable[Item], known_before: frozenset[tuple[str, str]]) -> list[Item]:
        """Take over a whole listing. Returns what had been missed.

        ``known_before`` are (name, uid) from before the listing began: what was learned meanwhile stays.
        """
        missed: list[Item] = []
        listed: set[tuple[str, str]] = set()
        for item in items:
            listed.add((item.meta.name, item.meta.uid))
            if self.put(item):
                missed.append(item)
        for name, uid in known_before - listed:
            gone = self._items.get(name)
            if gone is not None and self.remove(name, uid):
                missed.append(gone)
        return missed

    def identities(self) -> frozenset[tuple[str, str]]:
        """(name, uid) of everything known."""
        return frozenset((item.meta.name, item.meta.uid) for item in self._items.values())

    def _unindex(self, item: Item) -> None:
        value = self._index(item)
        self._by[value].discard(item.meta.name)
        if not self._by[value]:
            del self._by[value]


class Cache:
    """All kinds."""

    def __init__(self) -> None:
        self.offices: Store[OfficeObject] = Store(lambda office: (office.spec and office.spec.vault_name) or "")
        """Indexed by the vault that the spec names."""
        self.vaults: Store[VaultObject] = Store(lambda vault: vault.secret_name)
        """Indexed by Secret."""
        self.secrets: Store[SecretObject] = Store(lambda secret: "")
        self.pods: Store[PodObject] = Store(lambda pod: pod.office)
        """Indexed by office."""
        self.scheduled_events: Store[ScheduledEventObject] = Store(lambda event: "")

    def offices_of_vault(self, vault: str) -> list[OfficeObject]:
        """Offices that a vault may concern: its namesake and those that name it."""
        own = self.offices.get(vault)
        return [*self.offices.by(vault), *([own] if own is not None else [])]
