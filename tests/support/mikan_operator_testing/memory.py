"""An API server in memory: enough of it to reconcile against, with every write on record."""

import asyncio
import copy
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from mikan_operator.exceptions import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from mikan_operator.storage.kinds import OFFICE, POD, ROLE, SCHEDULED_EVENT, SERVICE_ACCOUNT, Kind, Manifest
from mikan_operator.storage.kubernetes import WRITES, around_write

Changed = Callable[[Kind, Manifest, bool], None]
P = ParamSpec("P")
T = TypeVar("T")


def _at(verb: str) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Reach the places of `mikan_operator.storage.kubernetes`; a write that has none is a fault there."""

    def named(write: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(write)
        async def reached(*args: P.args, **kwargs: P.kwargs) -> T:
            given = signature(write).bind(*args, **kwargs).arguments
            kind, subresource = given["kind"], given.get("subresource", "")
            assert (verb, kind, subresource) in WRITES, f"{verb} of {kind.plural} {subresource} has no kill points"
            with around_write(verb, kind, subresource):
                return await write(*args, **kwargs)

        return reached

    return named


class MemoryStore:
    """Implements the ports of the operator's storage."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._objects: dict[tuple[str, str], Manifest] = {}
        self._versions = itertools.count(1)
        self.changed: Changed = lambda kind, manifest, deleted: None
        self.writes: list[tuple[str, str, str]] = []
        """(verb, plural, name) of every write of the operator."""
        self.slow: dict[str, int] = {}
        """Plural -> over how many turns of the loop making one takes."""
        self.failures: dict[tuple[str, str], ApiError] = {}
        """(verb, plural) -> what to answer, until removed."""

    def peek(self, kind: Kind, name: str) -> Manifest | None:
        """An object, or nothing."""
        return self._objects.get((kind.plural, name))

    def names(self, kind: Kind) -> list[str]:
        """Names of all objects of a kind."""
        return sorted(name for plural, name in self._objects if plural == kind.plural)

    # -- what others do -------------------------------------------------------------------------------------------

    def put(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Somebody else makes or replaces an object; spec changes raise the generation, as the API server does."""
        name = manifest["metadata"]["name"]
        known = self._objects.get((kind.plural, name))
        stored = copy.deepcopy(manifest)
        meta = stored["metadata"]
        if known is None:
            meta.setdefault("uid", f"uid-{kind.plural}-{name}-{next(self._versions)}")
            meta["generation"], meta["creationTimestamp"] = 1, self._now().isoformat()
        else:
            for field in ("uid", "creationTimestamp", "ownerReferences"):
                if field in known["metadata"]:
                    meta.setdefault(field, known["metadata"][field])
            moved = known.get("spec") != stored.get("spec")
            meta["generation"] = known["metadata"]["generation"] + (1 if moved else 0)
            stored.setdefault("status", known.get("status", {}))
        return self._store(kind, stored)

    def set_status(self, kind: Kind, name: str, **status: Any) -> None:
        """Somebody else writes part of a status."""
        stored = copy.deepcopy(self._objects[kind.plural, name])
        stored["status"] = {**stored.get("status", {}), **status}
        self._store(kind, stored)

    def vanish(self, kind: Kind, name: str) -> None:
        """An object goes, as the kubelet or a garbage collector ends it."""
        gone = self._objects.pop((kind.plural, name))
        self.changed(kind, gone, True)

    # -- what the operator does -----------------------------------------------------------------------------------

    async def get(self, kind: Kind, name: str) -> Manifest:
        """Read an object."""
        self._fail("get", kind)
        try:
            return copy.deepcopy(self._objects[kind.plural, name])
        except KeyError:
            raise NotFound(f"{kind.plural} {name} not found", 404) from None

    async def list_all(self, kind: Kind, label_selector: str = "") -> list[Manifest]:
        """Read all objects of a kind that have a label."""
        self._fail("list", kind)
        name, _, value = label_selector.partition("=")
        found = [copy.deepcopy(o) for (plural, _), o in self._objects.items() if plural == kind.plural]
        return [o for o in found if not name or (o["metadata"].get("labels") or {}).get(name) == value]

    @_at("create")
    async def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Make an object; a pod needs its service account and a binding its role, as the API server says."""
        name = manifest["metadata"].get("name") or f"{manifest['metadata']['generateName']}{next(self._versions)}"
        self.writes.append(("create", kind.plural, name))
        for _ in range(self.slow.get(kind.plural, 0)):
            await asyncio.sleep(0)
        self._fail("create", kind)
        if (kind.plural, name) in self._objects:
            raise AlreadyExists(f"{kind.plural} {name} already exists", 409)
        account = manifest.get("spec", {}).get("serviceAccountName") if kind == POD else None
        if account and (SERVICE_ACCOUNT.plural, account) not in self._objects:
            raise Forbidden(f"error looking up service account {account}", 403)
        role = manifest.get("roleRef", {}).get("name")
        if role and (ROLE.plural, role) not in self._objects:
            # Whoever may not bind at will must hold what the role grants, so it is looked up.
            raise NotFound(f"roles {role} not found", 404)
        stored = copy.deepcopy(manifest)
        stored["metadata"] = {**stored["metadata"], "name": name}
        return copy.deepcopy(self.put(kind, stored))

    @_at("replace")
    async def replace(self, kind: Kind, name: str, manifest: Manifest) -> Manifest:
        """Write an object as a whole."""
        self.writes.append(("replace", kind.plural, name))
        self._fail("replace", kind)
        known = self._objects[kind.plural, name]
        if manifest["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified", 409)
        return copy.deepcopy(self.put(kind, manifest))

    @_at("apply")
    async def apply(self, kind: Kind, name: str, fields: Manifest, subresource: str = "") -> Manifest:
        """Merge fields; lists and conditions are replaced, which is all that these tests need of it."""
        self.writes.append(("apply", f"{kind.plural}{'/' if subresource else ''}{subresource}", name))
        self._fail("apply", kind)
        known = self._objects.get((kind.plural, name))
        if known is None:
            raise NotFound(f"{kind.plural} {name} not found", 404)
        if fields.get("metadata", {}).get("uid", known["metadata"]["uid"]) != known["metadata"]["uid"]:
            raise Conflict("uid mismatch", 409)
        ours = {"lastActivityTime", "runningSessions"}
        stored = copy.deepcopy(known)
        if subresource == "status":
            kept = {key: value for key, value in (known.get("status") or {}).items() if key in ours}
            stored["status"] = {**kept, **fields["status"]}
        else:
            stored = _merged(stored, fields)
            stored["metadata"]["finalizers"] = fields["metadata"].get("finalizers", [])
            if kind == OFFICE and stored["metadata"].get("deletionTimestamp") and not stored["metadata"]["finalizers"]:
                self.vanish(kind, name)
                return stored
        return copy.deepcopy(self._store(kind, stored))

    @_at("delete")
    async def delete(self, kind: Kind, name: str, uid: str, resource_version: str) -> None:
        """Mark a pod as ending; its kubelet lets it go with `vanish`. A scheduled event is gone at once."""
        self.writes.append(("delete", kind.plural, name))
        self._fail("delete", kind)
        known = self._objects.get((kind.plural, name))
        if known is None:
            raise NotFound(f"{kind.plural} {name} not found", 404)
        meta = known["metadata"]
        if (meta["uid"], meta["resourceVersion"]) != (uid, resource_version):
            raise Conflict("precondition failed", 409)
        if kind == SCHEDULED_EVENT:
            self.vanish(kind, name)
            return
        stored = copy.deepcopy(known)
        stored["metadata"]["deletionTimestamp"] = self._now().isoformat()
        self._store(kind, stored)

    def _fail(self, verb: str, kind: Kind) -> None:
        if failure := self.failures.get((verb, kind.plural)):
            raise failure

    def _store(self, kind: Kind, manifest: Manifest) -> Manifest:
        manifest["metadata"]["resourceVersion"] = str(next(self._versions))
        self._objects[kind.plural, manifest["metadata"]["name"]] = manifest
        self.changed(kind, copy.deepcopy(manifest), False)
        return manifest


def _merged(base: Manifest, over: Manifest) -> Manifest:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
