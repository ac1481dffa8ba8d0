"""The offices there are, kept current by one watch.

A dead watch must show and must not last: the server ends each watch after `WATCH_SECONDS`, silence for longer than
`SILENCE_SECONDS` counts as a dead connection (a bookmark comes about every minute), 410 and every failure lead to a new
list after a pause that grows. Used by the gateway and by the models process alike.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

from kubernetes.aio.client import ApiClient

from mikan_api.identity import OfficeKey
from mikan_api.settings import Settings
from mikan_gateway.exceptions import ClusterError
from mikan_gateway.offices.api import OfficeApi, WatchExpired
from mikan_gateway.offices.view import OfficeRecord, UnusableOffice, read_office, view_office
from mikan_gateway.ports import Health, OfficeView, SettingsSource

WATCH_SECONDS = 290
SILENCE_SECONDS = 150.0
MAX_PAUSE = 4.0
"""Seconds at most between two tries: everything about offices waits for this watch, and only two processes have it."""
REWATCH_PAUSE = 0.1
"""Seconds between the end of a watch and the next; a server that ends each at once must not be hammered."""

logger = logging.getLogger(__name__)

Changed = Callable[[OfficeKey], None]


class OfficeDirectory:
    """Every Office of one namespace, as last seen."""

    def __init__(self, api: ApiClient | OfficeApi, namespace: str, settings: SettingsSource) -> None:
        self._api = api if isinstance(api, OfficeApi) else OfficeApi(api, namespace)
        self._settings = settings
        self._records: dict[OfficeKey, OfficeRecord] = {}
        self._views: dict[OfficeKey, tuple[OfficeRecord, Settings, OfficeView]] = {}
        self._listeners: list[Changed] = []
        self._synced = asyncio.Event()
        self._fault = "no list of the offices yet"
        self._failures = 0
        self.recovery = asyncio.Event()
        """Set when the API server next answers after it did not; then another event is here."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to list and watch, in the background."""
        self._task = asyncio.create_task(self._run(), name="office-watch")

    async def stop(self) -> None:
        """End the watch; what was seen stays readable."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def wait_synced(self) -> None:
        """Wait for the first complete list."""
        await self._synced.wait()

    @property
    def synced(self) -> bool:
        """Whether there ever was a complete list."""
        return self._synced.is_set()

    @property
    def running(self) -> bool:
        """Whether the watch is at work, however badly; false is for a restart to cure."""
        return self._task is not None and not self._task.done()

    def listen(self, changed: Changed) -> None:
        """Have ``changed`` called with the key of every office that comes, changes or goes. It must not block."""
        self._listeners.append(changed)

    def get(self, key: OfficeKey) -> OfficeView | None:
        """What holds for an office now; built anew only when the object or the settings changed."""
        record = self._records.get(key)
        if record is None:
            return None
        settings = self._settings.current
        cached = self._views.get(key)
        if cached is None or cached[0] is not record or cached[1] is not settings:
            cached = (record, settings, view_office(record, settings))
            self._views[key] = cached
        return cached[2]

    def record(self, key: OfficeKey) -> OfficeRecord | None:
        """The object itself."""
        return self._records.get(key)

    def __iter__(self) -> Iterator[OfficeRecord]:
        return iter(tuple(self._records.values()))

    def health(self) -> Health:
        """Whether what is here can be trusted to be current."""
        if self._task is not None and self._task.done():
            return Health(False, "the office watch has ended")
        return Health(not self._fault, self._fault)

    def observe(self, manifest: dict[str, Any]) -> OfficeRecord:
        """Take in an object that somebody got otherwise (created it, read it), unless a newer one is known.

        Raises:
            UnusableOffice: it is none of ours.
        """
        record = read_office(manifest)
        known = self._records.get(record.key)
        if known is None or known.uid != record.uid or _newer(record.version, known.version):
            self._set(record)
        return record

    async def _run(self) -> None:
        while True:
            try:
                await self._list_and_watch()
            except WatchExpired as error:
                logger.info("office watch: listing again", extra={"reason": str(error)})
            except ClusterError as error:
                await self._failed(str(error))
            except Exception:
                # Whatever it was, a directory that stops watching would serve stale offices for ever.
                logger.exception("office watch: unexpected failure")
                await self._failed("unexpected failure, see the log")

    async def _failed(self, reason: str) -> None:
        self._fault = reason
        self._failures += 1
        pause = min(MAX_PAUSE, 0.5 * 2 ** min(self._failures - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311  jitter
        logger.warning("office watch: failed", extra={"reason": reason, "pause": round(pause, 1)})
        await asyncio.sleep(pause)

    async def _list_and_watch(self) -> None:
        manifests, version = await self._api.list()
        self._replace(manifests)
        self._fault, self._failures = "", 0
        self._synced.set()
        recovery, self.recovery = self.recovery, asyncio.Event()
        recovery.set()
        while True:
            async for kind, manifest in self._api.watch(version, WATCH_SECONDS, SILENCE_SECONDS):
                version = manifest["metadata"]["resourceVersion"]
                self._take(kind, manifest)
            await asyncio.sleep(REWATCH_PAUSE)

    def _replace(self, manifests: list[dict[str, Any]]) -> None:
        listed = {manifest["metadata"]["name"] for manifest in manifests}
        for key in [key for key in self._records if key not in listed]:
            self._forget(key)
        for manifest in manifests:
            self._take("MODIFIED", manifest)

    def _take(self, kind: str, manifest: dict[str, Any]) -> None:
        if kind == "BOOKMARK":
            return
        if kind == "DELETED":
            self._forget(OfficeKey(manifest["metadata"]["name"]))
            return
        try:
            record = read_office(manifest)
        except UnusableOffice as error:
            logger.warning("office ignored", extra={"reason": str(error)})
            self._forget(OfficeKey(manifest["metadata"]["name"]))
            return
        self._set(record)

    def _set(self, record: OfficeRecord) -> None:
        known = self._records.get(record.key)
        if known is not None and known.version == record.version:
            return
        self._records[record.key] = record
        self._tell(record.key)

    def _forget(self, key: OfficeKey) -> None:
        self._views.pop(key, None)
        if self._records.pop(key, None) is not None:
            self._tell(key)

    def _tell(self, key: OfficeKey) -> None:
        for changed in self._listeners:
            changed(key)


def _newer(version: str, than: str) -> bool:
    """Resource versions of one resource type are integers that grow (Kubernetes 1.35 API conventions)."""
    return not (version.isdigit() and than.isdigit()) or int(version) > int(than)
