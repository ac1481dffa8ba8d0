"""What the process says of itself: alive, ready, and why not.

``/healthz`` fails only where a restart would cure. ``/readyz`` fails where requests can't be served; it names every
part, and one that is down but not needed (a platform, say) is named without failing it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mikan_gateway.ports import Health


@dataclass(frozen=True, slots=True)
class Part:
    """Something whose health is told."""

    name: str
    health: Callable[[], Health]
    needed: bool = False
    """Whether nothing can be served without it."""
    alive: Callable[[], bool] = lambda: True
    """False where only a restart would cure it."""


class HealthBoard:
    """All parts of the process."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self.started = False

    def add(self, part: Part) -> None:
        """Tell of another part."""
        self._parts.append(part)

    def dead(self) -> list[str]:
        """Parts that only a restart would cure."""
        return [part.name for part in self._parts if not part.alive()]

    def states(self) -> dict[str, Health]:
        """Every part's health."""
        return {part.name: part.health() for part in self._parts}

    def ready(self) -> bool:
        """Whether requests can be served."""
        return self.started and all(part.health().ok for part in self._parts if part.needed)


def health_routes(board: HealthBoard, registry: CollectorRegistry) -> list[Route]:
    """``/health``, ``/healthz``, ``/readyz`` and ``/metrics``."""

    async def health(_: Request) -> Response:
        return JSONResponse({"ok": True})

    async def healthz(_: Request) -> Response:
        dead = board.dead()
        return JSONResponse({"ok": not dead, "dead": dead}, 503 if dead else 200)

    async def readyz(_: Request) -> Response:
        ready = board.ready()
        parts = {name: {"ok": state.ok, "reason": state.reason} for name, state in board.states().items()}
        body = {"ok": ready, "started": board.started, "parts": parts}
        return JSONResponse(body, 200 if ready else 503)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [
        Route("/health", health),
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", metrics),
    ]
