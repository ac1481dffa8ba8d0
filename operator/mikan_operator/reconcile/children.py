"""The objects that an office owns: made at once, kept as built, never taken from anybody else.

Create first; where the name is taken the owner's UID decides. What is ours is corrected by server-side apply, what is
not is left alone and said (`NotOwned`).
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from mikan_operator.builders import access
from mikan_operator.builders.plan import OfficePlan, digest
from mikan_operator.cache import Cache
from mikan_operator.exceptions import AlreadyExists, NotFound, OperatorError
from mikan_operator.inputs import TokenKeys
from mikan_operator.observed import Meta, PodObject
from mikan_operator.reconcile.ports import ObjectStore
from mikan_operator.storage.kinds import OFFICE, POD, ROLE, ROLE_BINDING, SECRET, SERVICE_ACCOUNT, Kind, Manifest


class NotOwned(OperatorError):
    """Something else has the name that a child needs."""


class Leftover(OperatorError):
    """An earlier Office of the same name left the object; garbage collection is about to take it."""


class Children:
    """Makes, corrects and deletes the children of offices."""

    def __init__(self, cache: Cache, store: ObjectStore, namespace: str) -> None:
        self._cache = cache
        self._store = store
        self._namespace = namespace
        self._verified: dict[str, str] = {}
        """Office UID -> fingerprint of access objects that were last seen to be right."""

    def forget_verified(self) -> None:
        """Look at every access object anew when its office is next reconciled."""
        self._verified.clear()

    def forget(self, uid: str) -> None:
        """An office is gone."""
        self._verified.pop(uid, None)

    async def ensure(
        self, plan: OfficePlan, keys: TokenKeys, epoch: int, pods: Sequence[Manifest], *, running: bool
    ) -> None:
        """Have the access objects right and make ``pods``, all at the same moment.

        ``running`` says that some pod is there, hence the access objects most likely are: they are read before
        anything is written.

        Raises:
            NotOwned: a name is taken.
            ApiError: the first failure, after all have been tried.
        """
        account, secret, role, binding = chains = self._access(plan, keys, epoch)
        fingerprint = digest([manifest for _, manifest in chains])
        tasks: list[Coroutine[Any, Any, None]] = []
        if self._verified.get(plan.uid) != fingerprint:
            # A pod is refused while its service account is missing, and a binding while its role is. All else may
            # come in any order.
            ready = asyncio.create_task(self._settle(account, plan, read_first=running))
            tasks.append(self._settle(secret, plan, read_first=running))
            tasks.append(self._settle(role, plan, then=binding, read_first=running))
        else:
            ready = asyncio.create_task(asyncio.sleep(0))
        tasks += [self._create_pod(pod, plan, ready) for pod in pods]
        results = await asyncio.gather(ready, *tasks, return_exceptions=True)
        if failures := [result for result in results if isinstance(result, BaseException)]:
            raise next((f for f in failures if isinstance(f, NotOwned)), failures[0])
        self._verified[plan.uid] = fingerprint

    def _access(self, plan: OfficePlan, keys: TokenKeys, epoch: int) -> list[tuple[Kind, Manifest]]:
        return [
            (SERVICE_ACCOUNT, access.service_account(plan)),
            (SECRET, access.token_secret(plan, keys, epoch)),
            (ROLE, access.role(plan)),
            (ROLE_BINDING, access.role_binding(plan, self._namespace)),
        ]

    async def _settle(
        self,
        child: tuple[Kind, Manifest],
        plan: OfficePlan,
        *,
        then: tuple[Kind, Manifest] | None = None,
        read_first: bool,
    ) -> None:
        await self._put_right(*child, plan, read_first=read_first)
        if then:
            await self._put_right(*then, plan, read_first=read_first)

    async def _put_right(self, kind: Kind, manifest: Manifest, plan: OfficePlan, *, read_first: bool) -> None:
        name = manifest["metadata"]["name"]
        if not read_first:
            try:
                await self._store.create(kind, manifest)
                return
            except AlreadyExists:
                pass  # read below
        try:
            existing = await self._store.get(kind, name)
        except NotFound:
            await self._store.create(kind, manifest)
            return
        _check_owner(kind, existing, plan)
        if not _holds(existing, manifest):
            fields = {key: value for key, value in manifest.items() if key not in {"apiVersion", "kind"}}
            await self._store.apply(kind, name, fields)

    async def _create_pod(self, manifest: Manifest, plan: OfficePlan, account: "asyncio.Task[None]") -> None:
        if "serviceAccountName" in manifest["spec"]:
            await asyncio.shield(account)
        try:
            made = await self._store.create(POD, manifest)
        except AlreadyExists:
            made = await self._store.get(POD, manifest["metadata"]["name"])
            _check_owner(POD, made, plan)
        self._cache.pods.put(PodObject.of(made))

    async def annotate_pod(self, pod: PodObject, annotation: str, value: str) -> None:
        """Set an annotation of a pod. Any change of a pod makes the kubelet refresh what is mounted into it."""
        fields = {"metadata": {"uid": pod.meta.uid, "annotations": {annotation: value}}}
        self._cache.pods.put(PodObject.of(await self._store.apply(POD, pod.meta.name, fields)))

    async def delete_pod(self, pod: PodObject) -> None:
        """Delete a pod as it is now. Raises `Conflict` if it changes meanwhile."""
        try:
            fresh = PodObject.of(await self._store.get(POD, pod.meta.name))
            if fresh.meta.uid != pod.meta.uid:
                self._cache.pods.put(fresh)
                return
            self._cache.pods.put(fresh)
            if not fresh.meta.deleting:
                await self._store.delete(POD, pod.meta.name, fresh.meta.uid, fresh.meta.version)
                self._cache.pods.overwrite(replace(fresh, meta=replace(fresh.meta, deleting=True)))
        except NotFound:
            self._cache.pods.remove(pod.meta.name, pod.meta.uid)


def _check_owner(kind: Kind, existing: Manifest, plan: OfficePlan) -> None:
    meta, name = Meta.of(existing), existing["metadata"]["name"]
    if meta.owner_uid == plan.uid:
        return
    owners = existing["metadata"].get("ownerReferences") or ()
    if any(o["kind"] == OFFICE.kind and o["name"] == plan.key and o["uid"] != plan.uid for o in owners):
        raise Leftover(f"waiting until {kind.kind} {name} of an earlier Office is gone")
    raise NotOwned(f"{kind.kind} {name} exists and is not owned by this Office; it is left alone")


def _holds(existing: Manifest, wanted: Manifest) -> bool:
    """Whether an object has all that was built for it, whatever else it has."""
    labels = existing["metadata"].get("labels") or {}
    if any(labels.get(name) != value for name, value in wanted["metadata"]["labels"].items()):
        return False
    content = (key for key in wanted if key not in {"apiVersion", "kind", "metadata"})
    return all((existing.get(key) or None) == (wanted[key] or None) for key in content)
