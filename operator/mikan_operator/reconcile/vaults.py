"""Reconciling a Vault: its status says what its Secret gives, in names, and which offices it is bound to."""

from mikan_api.resources import VaultStatus
from mikan_operator.cache import Cache
from mikan_operator.conditions import merge, transitions
from mikan_operator.exceptions import NotFound
from mikan_operator.observed import VaultObject
from mikan_operator.reconcile.events import EventRecorder
from mikan_operator.reconcile.ports import Clock, ObjectStore
from mikan_operator.reconcile.vault_binding import VaultInspector, VaultView, allows
from mikan_operator.storage.kinds import VAULT

MAX_LISTED = 1024
"""Bound of each list in a status."""


class VaultReconciler:
    """Keeps the status of Vaults."""

    def __init__(
        self, cache: Cache, store: ObjectStore, inspector: VaultInspector, events: EventRecorder, clock: Clock
    ) -> None:
        self._cache = cache
        self._store = store
        self._inspector = inspector
        self._events = events
        self._clock = clock

    async def reconcile(self, name: str) -> None:
        """Bring a Vault's status up to date."""
        vault = self._cache.vaults.get(name)
        if vault is None or vault.meta.deleting:
            return
        view = await self._inspector.inspect(vault)
        states = (view.ready, view.secret_found, view.mounts_valid)
        status = self._status(vault, view)
        if status == vault.status:
            return
        fields = {"metadata": {"uid": vault.meta.uid}, "status": status.to_json_dict()}
        try:
            self._cache.vaults.put(VaultObject.of(await self._store.apply(VAULT, name, fields, "status")))
        except NotFound:
            self._cache.vaults.remove(name, vault.meta.uid)
            return
        await self._events.warn(VAULT, vault.meta, transitions(states, vault.status.conditions))

    def _status(self, vault: VaultObject, view: VaultView) -> VaultStatus:
        states = (view.ready, view.secret_found, view.mounts_valid)
        bound = sorted(
            o.meta.name
            for o in self._cache.offices_of_vault(vault.meta.name)
            if _is_bound(vault, o.meta.name, self._cache)
        )
        mounts = view.mounts
        return VaultStatus(
            observed_generation=vault.meta.generation,
            conditions=merge(states, vault.status.conditions, vault.meta.generation, self._clock()),
            variables=mounts.variables[:MAX_LISTED] if mounts else (),
            files=tuple(f"~/{file.path}" for file in mounts.files)[:MAX_LISTED] if mounts else (),
            bound_offices=tuple(bound[:MAX_LISTED]),
            secret_resource_version=view.secret.meta.version if view.secret else None,
        )


def _is_bound(vault: VaultObject, office_name: str, cache: Cache) -> bool:
    office = cache.offices.get(office_name)
    if office is None or office.meta.deleting or not allows(vault, office):
        return False
    named = office.spec.vault_name if office.spec else None
    return vault.meta.name == (named or office_name)
