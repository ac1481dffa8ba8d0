"""Kubernetes Events about our objects: one for each change into a state that somebody must look at."""

import logging
from collections.abc import Iterable

from mikan_api import names
from mikan_api.resources import Reason
from mikan_operator.conditions import State
from mikan_operator.exceptions import ApiError
from mikan_operator.observed import Meta
from mikan_operator.reconcile.ports import Clock, ObjectStore
from mikan_operator.storage.kinds import EVENT, Kind

QUIET = frozenset(
    {
        Reason.STARTING,
        Reason.RUNNING,
        Reason.IDLE,
        Reason.SUSPENDED,
        Reason.STALE,
        Reason.TERMINATING,
        Reason.NO_VAULT,
        Reason.BOUND,
        Reason.FOUND,
        Reason.VALID,
        Reason.SCHEDULED,
        Reason.OVER,
    }
)
"""Reasons of an ordinary life; a condition tells of them, no Event does."""
MAX_NOTE = 1024

logger = logging.getLogger(__name__)


class EventRecorder:
    """Writes Events."""

    def __init__(self, store: ObjectStore, clock: Clock, namespace: str, instance: str) -> None:
        self._store = store
        self._clock = clock
        self._namespace = namespace
        self._instance = instance

    async def warn(self, kind: Kind, meta: Meta, states: Iterable[State]) -> None:
        """Tell of each fault once: several conditions may have the same reason, the longest message tells the most."""
        faults: dict[Reason, str] = {}
        for state in states:
            if state.reason not in QUIET:
                faults[state.reason] = max(state.message, faults.get(state.reason, ""), key=len)
        for reason, message in faults.items():
            await self._write(kind, meta, reason, message)

    async def _write(self, kind: Kind, meta: Meta, reason: Reason, message: str) -> None:
        event = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"generateName": f"{meta.name}-", "namespace": self._namespace},
            "eventTime": self._clock().isoformat(timespec="microseconds"),
            "reportingController": f"{names.GROUP}/{names.OPERATOR}",
            "reportingInstance": self._instance[:128],
            "type": "Warning",
            "reason": reason.value,
            "action": "Reconcile",
            "note": message[:MAX_NOTE] or reason.value,
            "regarding": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": meta.name,
                "namespace": self._namespace,
                "uid": meta.uid,
            },
        }
        try:
            await self._store.create(EVENT, event)
        except ApiError as error:
            # The condition says the same; an Event is never worth a retry of the reconcile.
            logger.warning("event not written: %s", error, extra={"object": meta.name})
