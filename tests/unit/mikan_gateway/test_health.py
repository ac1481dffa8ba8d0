import httpx
import pytest
from starlette.applications import Starlette

from mikan_gateway.health import HealthBoard, Part, health_routes
from mikan_gateway.metrics import Metrics
from mikan_gateway.ports import Health

WELL = Part("database", lambda: Health(True), needed=True)
DEAF = Part("platform-slack", lambda: Health(False, "no frame for 60 s"))
BROKEN = Part("database", lambda: Health(False, "disk full"), needed=True)
DEAD = Part("office-watch", lambda: Health(False, "the watch has ended"), alive=lambda: False)


async def ask(path: str, *parts: Part, started: bool = True) -> tuple[int, dict[str, object]]:
    board, metrics = HealthBoard(), Metrics()
    board.started = started
    for part in parts:
        board.add(part)
    app = Starlette(routes=health_routes(board, metrics.registry))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        response = await client.get(path)
    return response.status_code, response.json()


async def test_health_is_plain() -> None:
    assert await ask("/health", DEAD) == (200, {"ok": True})


@pytest.mark.parametrize(
    ("parts", "status", "dead"),
    [((WELL, DEAF, BROKEN), 200, []), ((WELL, DEAD), 503, ["office-watch"])],
)
async def test_alive_unless_only_a_restart_would_cure(parts: tuple[Part, ...], status: int, dead: list[str]) -> None:
    assert await ask("/healthz", *parts) == (status, {"ok": status == 200, "dead": dead})


async def test_a_platform_that_is_down_is_named_and_takes_nothing_with_it() -> None:
    status, body = await ask("/readyz", WELL, DEAF)

    assert status == 200
    assert body["parts"] == {
        "database": {"ok": True, "reason": ""},
        "platform-slack": {"ok": False, "reason": "no frame for 60 s"},
    }


@pytest.mark.parametrize(("parts", "started"), [((BROKEN,), True), ((WELL,), False)])
async def test_not_ready_without_what_everything_needs(parts: tuple[Part, ...], started: bool) -> None:
    status, _ = await ask("/readyz", *parts, started=started)

    assert status == 503


async def test_metrics_tell_of_every_part() -> None:
    board, metrics = HealthBoard(), Metrics()
    board.add(WELL)
    board.add(DEAF)
    metrics.observe(board, lambda: 7)
    app = Starlette(routes=health_routes(board, metrics.registry))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        text = (await client.get("/metrics")).text

    assert 'mikan_gateway_part_up{part="database"} 1.0' in text
    assert 'mikan_gateway_part_up{part="platform-slack"} 0.0' in text
    assert "mikan_gateway_offices 7.0" in text
