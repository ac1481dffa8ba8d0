"""The operator process, put together: start and stop mirror each other, and nothing acts before the Lease is held.

What it needs to be allowed (the chart's Roles hold exactly this):

=========  ===========================  ================================  ===================================
Namespace  Resource                     Verbs                             Why
=========  ===========================  ================================  ===================================
offices    mikan.dev offices, vaults,   get, list, watch                  the wishes; a second look
           scheduledevents
offices    mikan.dev scheduledevents    delete                            what fires once and did
offices    mikan.dev offices            patch                             the finalizer of dataRetention: Delete
offices    mikan.dev offices/status,    patch                             conditions, by server-side apply
           vaults/status,
           scheduledevents/status
offices    mikan.dev                    update                            blockOwnerDeletion, where the cluster
           offices/finalizers                                             enforces permissions for it
offices    pods                         get, list, watch, create, patch,  agent and sandbox pods; patch touches
                                        delete                            an annotation after a rotation
offices    pods/exec                    get, create                       never used: held so that each agent
                                                                          may be granted its own sandbox
offices    secrets                      get, list, watch, create, patch   vaults' Secrets (read), office tokens
offices    serviceaccounts, RBAC        get, create, patch                one set for each office
           roles and rolebindings
offices    events.k8s.io events         create                            faults, for kubectl describe
release    coordination leases          get, create, update               one operator acts
(cluster)  node.k8s.io runtimeclasses   get                               says when a runtime is missing
=========  ===========================  ================================  ===================================
"""

import asyncio
import logging
import signal
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import kopf
from aiohttp import web

from mikan_api.firings import MAX_BATCH
from mikan_api.mounted import Reloaded, follow
from mikan_operator import handlers, metrics
from mikan_operator.cache import Cache
from mikan_operator.config import Config
from mikan_operator.firing import GatewayFirings
from mikan_operator.health import Health, build_application
from mikan_operator.inputs import Inputs, mounted_inputs
from mikan_operator.installation import Installation, read_installation
from mikan_operator.intake import Intake, Work
from mikan_operator.lease import Lease
from mikan_operator.reconcile.children import Children
from mikan_operator.reconcile.events import EventRecorder
from mikan_operator.reconcile.offices import OfficeReconciler
from mikan_operator.reconcile.retention import Retention
from mikan_operator.reconcile.scheduled_events import ScheduledEventReconciler
from mikan_operator.reconcile.vault_binding import VaultInspector
from mikan_operator.reconcile.vaults import VaultReconciler
from mikan_operator.resync import Resync
from mikan_operator.storage.kubernetes import KubernetesApi, connect, load_configuration
from mikan_operator.watches import Watches
from mikan_operator.workqueue import WorkQueue

WORKERS = 16
FIRING_WORKERS = 4 * MAX_BATCH
"""They only wait for the gateway, so that each request of `GatewayFirings` can be full."""
NOTE_AFTER = 0.5
"""Seconds until a firing is noted in its status: all that is due at the same instant is delivered first."""

logger = logging.getLogger(__name__)


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


class Operator:
    """Everything that acts while the Lease is held."""

    def __init__(
        self, config: Config, installation: Installation, inputs: Reloaded[Inputs], store: KubernetesApi
    ) -> None:
        self.watches = Watches(time.time)
        self._config = config
        self._inputs = inputs
        self._queue: WorkQueue[Work] = WorkQueue(self._work, WORKERS)
        cache = Cache()
        inspector = VaultInspector(cache, store)
        children = Children(cache, store, config.offices_namespace)
        retention = Retention(cache, store, children, installation)
        events = EventRecorder(store, utc_now, config.offices_namespace, config.identity)
        self._offices = OfficeReconciler(
            cache, store, children, retention, inspector, events, lambda: inputs.current, installation, utc_now
        )
        self._vaults = VaultReconciler(cache, store, inspector, events, utc_now)
        self._gateway = GatewayFirings(installation.gateway_url, lambda: inputs.current.keys.gateway)
        self._firings: WorkQueue[str] = WorkQueue(self._fire, FIRING_WORKERS)
        self._scheduled = ScheduledEventReconciler(
            cache,
            store,
            self._gateway,
            events,
            utc_now,
            fire=self._firings.add_after,
            fired=lambda name: self._queue.add_after(Work("scheduled-event", name), NOTE_AFTER),
        )
        self._intake = Intake(cache, self._queue)
        self._resync = Resync(store, cache, self._intake, self.watches, children)

    async def run(self, lease: Lease) -> None:
        """Act until the process is told to stop.

        Raises:
            LeaseLost: somebody else may act now.
        """
        try:
            await self._act(lease)
        finally:
            await self._gateway.aclose()

    async def _act(self, lease: Lease) -> None:
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(lease.hold(self._queue.hurry))]
            await self._resync.first()
            background += [
                group.create_task(coroutine)
                for coroutine in (
                    self._queue.run(),
                    self._firings.run(),
                    follow([self._inputs], self._intake.enqueue_all),
                    self._resync.follow(),
                )
            ]
            await kopf.operator(
                registry=handlers.build_registry(self._intake, self.watches),
                settings=handlers.build_settings(),
                namespaces=[self._config.offices_namespace],
            )
            for task in background:
                task.cancel()

    async def _fire(self, name: str) -> float | None:
        return await self._scheduled.fire(name)

    async def _work(self, work: Work) -> float | None:
        started = time.monotonic()
        result = "failed"
        try:
            later = None
            if work.kind == "office":
                later = await self._offices.reconcile(work.name)
            elif work.kind == "scheduled-event":
                later = await self._scheduled.reconcile(work.name)
            else:
                await self._vaults.reconcile(work.name)
            result = "ok"
            return later
        finally:
            metrics.RECONCILES.labels(work.kind, result).inc()
            metrics.RECONCILE_SECONDS.labels(work.kind).observe(time.monotonic() - started)
            metrics.INPUTS_VALID.set(0 if self._inputs.fault else 1)
            metrics.QUEUE_DEPTH.set(self._queue.depth)


async def run(config: Config) -> None:
    """Run the process until SIGTERM or SIGINT.

    Raises:
        ConfigError: something that was mounted is missing or wrong.
        LeaseLost: the Lease is gone.
    """
    installation = read_installation(config.installation_file)
    inputs = await asyncio.to_thread(mounted_inputs, config.settings_dir, config.keys_dir)
    configuration = await load_configuration()
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(connect(configuration))
        # Connections of its own: the Lease must not wait behind what is done under it, or much to do would end it.
        lease_api = await stack.enter_async_context(connect(configuration))
        operator = Operator(config, installation, inputs, KubernetesApi(api, config.offices_namespace))
        lease = Lease(KubernetesApi(lease_api, config.namespace), config.identity, utc_now)
        health = Health(operator.watches, lambda: inputs.fault, api_fault=lambda: lease.fault)
        runner = web.AppRunner(build_application(health), access_log=None)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, config.listen.host, config.listen.port).start()
        await _until_stopped(_lead(lease, operator, health))


async def _lead(lease: Lease, operator: Operator, health: Health) -> None:
    await lease.acquire()
    health.leader = True
    try:
        await operator.run(lease)
    finally:
        await lease.release()


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run until done or signalled. Kopf takes the signals over once it runs, and then ends by itself."""
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        logger.info("stopped")
