"""``dataRetention: Delete``: the one case with a finalizer, so that an office's data goes before its object does.

Order: pods end, a short-lived pod removes the data, the finalizer goes. Where the namespace is already terminating no
pod can be made: the data is left to the volume's own policy, the finalizer goes all the same, and the log says so.
"""

import logging

from mikan_api import names
from mikan_api.exceptions import InvalidValue
from mikan_operator.builders.cleanup_pod import COMPONENT, cleanup_pod
from mikan_operator.cache import Cache
from mikan_operator.exceptions import AlreadyExists, NamespaceTerminating, NotFound
from mikan_operator.installation import Installation
from mikan_operator.observed import OfficeObject, PodObject
from mikan_operator.reconcile.children import Children
from mikan_operator.reconcile.ports import ObjectStore
from mikan_operator.storage.kinds import OFFICE, POD

RETRY_SECONDS = 5.0

logger = logging.getLogger(__name__)


class Retention:
    """Keeps the finalizer as the spec wants it, and honours it."""

    def __init__(self, cache: Cache, store: ObjectStore, children: Children, installation: Installation) -> None:
        self._cache = cache
        self._store = store
        self._children = children
        self._installation = installation

    async def keep(self, office: OfficeObject) -> None:
        """Set or drop the finalizer of a living office."""
        wanted = office.spec is not None and office.spec.data_retention == "Delete"
        if wanted != office.finalized:
            await self._finalize(office, wanted=wanted)

    async def clean(self, office: OfficeObject) -> float | None:
        """Take the next step of a deleted office's clean-up. Returns when to look again, if nothing else tells."""
        pods = [p for p in self._cache.pods.by(office.meta.name) if p.meta.owner_uid == office.meta.uid]
        working = [pod for pod in pods if pod.component != COMPONENT]
        cleaner = next((pod for pod in pods if pod.component == COMPONENT), None)
        if working:
            for pod in working:
                if not pod.meta.deleting:
                    await self._children.delete_pod(pod)
            return None
        if cleaner is None:
            return await self._start(office)
        if cleaner.phase == "Succeeded":
            await self._finalize(office, wanted=False)
        elif cleaner.finished and not cleaner.meta.deleting:
            await self._children.delete_pod(cleaner)
            return RETRY_SECONDS
        return None

    async def _start(self, office: OfficeObject) -> float | None:
        try:
            if office.spec is None or office.spec.address.key != office.meta.name:
                raise InvalidValue("not the office's own name")
            made = await self._store.create(POD, cleanup_pod(office, office.spec, self._installation))
        except AlreadyExists:
            return RETRY_SECONDS
        except (NamespaceTerminating, InvalidValue) as error:
            # An office under a wrong name never had data: there is nothing to remove for it.
            logger.warning("data not removed", extra={"office": office.meta.name, "reason": str(error)})
            await self._finalize(office, wanted=False)
            return None
        self._cache.pods.put(PodObject.of(made))
        return None

    async def _finalize(self, office: OfficeObject, *, wanted: bool) -> None:
        metadata = {"uid": office.meta.uid} | ({"finalizers": [names.FINALIZER]} if wanted else {})
        try:
            made = await self._store.apply(OFFICE, office.meta.name, {"metadata": metadata})
        except NotFound:
            self._cache.offices.remove(office.meta.name, office.meta.uid)
            return
        self._cache.offices.put(OfficeObject.of(made))
