"""``/healthz``, ``/readyz`` and ``/metrics``.

``/healthz`` fails only where a restart would cure. ``/readyz`` names each watch; a standby that waits for the Lease is
ready to take over, and says so.
"""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from mikan_operator.watches import Watches


@dataclass(slots=True)
class Health:
    """What the process knows of itself."""

    watches: Watches
    inputs_fault: Callable[[], str]
    leader: bool = False
    api_fault: Callable[[], str] = lambda: ""
    """Why the API server can't be asked."""

    def alive(self) -> bool:
        """Whether a restart would not help. It never does while the API server is away, which ends watches too."""
        return bool(self.api_fault()) or not self.watches.dead

    def readiness(self) -> tuple[bool, dict[str, object]]:
        """Whether it does its work, and the details."""
        away = self.api_fault()
        details: dict[str, object] = {"api server": away} if away else {}
        if not self.leader:
            return not away, {"role": "standby"} | details
        watches = self.watches.report()
        details |= {"role": "leader", "listed": self.watches.listed, "watches": watches}
        faults = {"listing": self.watches.listing_fault, "inputs": self.inputs_fault()}
        details |= {name: fault for name, fault in faults.items() if fault}
        return not away and self.watches.listed and all(watches.values()), details


def build_application(health: Health) -> web.Application:
    """The three routes."""

    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"ok": health.alive()}, status=200 if health.alive() else 503)

    async def readyz(_: web.Request) -> web.Response:
        ready, details = health.readiness()
        return web.json_response({"ok": ready, **details}, status=200 if ready else 503)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.router.add_get("/healthz", healthz)
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", metrics)
    return application
