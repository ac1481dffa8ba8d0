"""A sign is sent again before it goes out, once for a place, and ends with its last run."""

from agent_peers.clock import VirtualClock
from mikan_gateway.exceptions import PlatformRefused, PlatformUnavailable
from mikan_gateway.platforms.telegram.typing_signs import TypingSigns
from mikan_gateway.ports import Target


class Signs:
    """Signs that a test counts."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.sent: list[float] = []
        self.failures: list[Exception] = []
        self.signs = TypingSigns(self._send, self.clock)

    async def _send(self, target: Target) -> None:
        self.sent.append(self.clock.monotonic())
        if self.failures:
            raise self.failures.pop(0)


async def test_a_sign_is_repeated_until_the_last_run_of_its_place_ends() -> None:
    world = Signs()
    one, two = Target("1", None, "a"), Target("1", None, "b")
    world.signs.begin(one)
    world.signs.begin(two)
    await world.clock.advance(9)
    assert world.sent == [0, 4, 8]

    world.signs.end(one)
    await world.clock.advance(4)
    assert world.sent == [0, 4, 8, 12]
    world.signs.end(two)
    world.signs.end(two)
    await world.clock.advance(20)

    assert world.sent == [0, 4, 8, 12]
    await world.signs.stop()


async def test_flood_control_slows_it_and_a_refusal_ends_it() -> None:
    world = Signs()
    world.failures = [PlatformUnavailable("flood", 10.0), PlatformRefused("blocked")]

    world.signs.begin(Target("1"))
    await world.clock.advance(60)

    assert world.sent == [0, 10]
    await world.signs.stop()
