"""Which vault an office gets, and whether it can be mounted whole.

A Secret that is not labelled ``mikan.dev/vault: "true"`` is never mounted, whatever a Vault says.
"""

import re
from dataclasses import dataclass

from mikan_api import names
from mikan_api.identity import OFFICE_KEY_PATTERN
from mikan_api.resources import ConditionType, Reason, VaultScope, own_vault_name
from mikan_api.sandbox_mode import SandboxMode
from mikan_operator.builders.plan import MountedVault
from mikan_operator.cache import Cache
from mikan_operator.conditions import State, false, true
from mikan_operator.exceptions import NotFound
from mikan_operator.observed import OfficeObject, SecretObject, VaultObject
from mikan_operator.reconcile.ports import ObjectStore
from mikan_operator.storage.kinds import SECRET
from mikan_operator.vault_mounts import MountFault, Mounts, plan_mounts


@dataclass(frozen=True, slots=True)
class VaultView:
    """A vault as it can be used now; ``mounts`` is ``None`` where a state says why not."""

    secret_found: State
    mounts_valid: State
    ready: State
    mounts: Mounts | None
    secret: SecretObject | None


@dataclass(frozen=True, slots=True)
class Binding:
    """What an office gets: a vault, none, or a refusal."""

    state: State
    vault: MountedVault | None = None

    @property
    def usable(self) -> bool:
        """Whether pods may start."""
        return self.state.is_true


class VaultInspector:
    """Looks at vaults through the cache, and at a Secret that no watch shows directly."""

    def __init__(self, cache: Cache, store: ObjectStore) -> None:
        self._cache = cache
        self._store = store

    async def inspect(self, vault: VaultObject) -> VaultView:
        """Check name, Secret and mounts."""
        found, secret = await self._secret(vault)
        if vault.spec is None:
            return _refused(found, Reason.UNSAFE_KEY, vault.fault, secret)
        if fault := name_fault(vault):
            return _refused(found, Reason.NAME_MISMATCH, fault, secret)
        if not found.is_true or secret is None:
            return _refused(found, found.reason, found.message, secret)
        mounts = plan_mounts(vault.spec, secret.keys)
        if isinstance(mounts, MountFault):
            return _refused(found, mounts.reason, mounts.message, secret)
        valid = true(ConditionType.MOUNTS_VALID, Reason.VALID)
        return VaultView(found, valid, true(ConditionType.READY, Reason.VALID), mounts, secret)

    async def bind(self, office: OfficeObject, mode: SandboxMode) -> Binding:
        """The vault of an office (architecture section 3)."""
        name = (office.spec and office.spec.vault_name) or own_vault_name_of(office)
        vault = self._cache.vaults.get(name)
        if vault is None or vault.meta.deleting:
            if office.spec and office.spec.vault_name:
                return _unbound(Reason.VAULT_NOT_READY, f"Vault {name} does not exist")
            return Binding(true(ConditionType.VAULT_READY, Reason.NO_VAULT))
        if not allows(vault, office):
            return _unbound(
                Reason.NOT_ALLOWED, f"Vault {name} is neither this office's own nor a shared one that allows it"
            )
        view = await self.inspect(vault)
        if view.mounts is None or view.secret is None:
            return _unbound(Reason.VAULT_NOT_READY, f"Vault {name}: {view.ready.reason}: {view.ready.message}")
        if view.mounts.files and not mode.mounts_vault_files:
            return _unbound(
                Reason.VAULT_NOT_READY, f"Vault {name} has files, which sandbox mode {mode.kind} can't mount"
            )
        mounted = MountedVault(vault.secret_name, view.secret.meta.version, view.mounts)
        return Binding(true(ConditionType.VAULT_READY, Reason.BOUND, f"Vault {name}"), mounted)

    async def _secret(self, vault: VaultObject) -> tuple[State, SecretObject | None]:
        name = vault.secret_name
        secret = self._cache.secrets.get(name)
        if secret is None:
            # The watch shows labelled Secrets only: ask, to tell a missing one from one without the label.
            try:
                secret = SecretObject.of(await self._store.get(SECRET, name))
            except NotFound:
                return false(ConditionType.SECRET_FOUND, Reason.SECRET_MISSING, f"Secret {name} does not exist"), None
        if not secret.labelled:
            text = f'Secret {name} lacks the label {names.LABEL_VAULT}: "true"'
            return false(ConditionType.SECRET_FOUND, Reason.SECRET_NOT_LABELLED, text), None
        return true(ConditionType.SECRET_FOUND, Reason.FOUND), secret


def own_vault_name_of(office: OfficeObject) -> str:
    """The name of an office's own vault. Its object's name is its key: checked before this is asked."""
    return own_vault_name(office.spec.address.key) if office.spec else office.meta.name


def allows(vault: VaultObject, office: OfficeObject) -> bool:
    """Whether an office may use a vault: its own, or a shared one that lists it."""
    if vault.spec is None:
        return vault.meta.name == office.meta.name
    if vault.spec.scope is VaultScope.OFFICE:
        return vault.meta.name == office.meta.name
    return vault.spec.scope is VaultScope.SHARED and office.meta.name in (vault.spec.allowed_offices or ())


def name_fault(vault: VaultObject) -> str:
    """Why a vault's name does not fit its scope; empty if it does. Does not rely on the schema, which says the same."""
    if vault.spec is None:
        return ""
    scope, name = vault.spec.scope, vault.meta.name
    if scope is VaultScope.OFFICE:
        return "" if re.fullmatch(OFFICE_KEY_PATTERN, name) else "a vault of scope office is named by the office key"
    return "" if name.startswith(f"{scope.value}-") else f"a vault of scope {scope.value} begins with {scope.value}-"


def _refused(found: State, reason: Reason, message: str, secret: SecretObject | None) -> VaultView:
    ready = false(ConditionType.READY, reason, message)
    return VaultView(found, false(ConditionType.MOUNTS_VALID, reason, message), ready, None, secret)


def _unbound(reason: Reason, message: str) -> Binding:
    return Binding(false(ConditionType.VAULT_READY, reason, message))
