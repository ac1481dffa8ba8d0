"""What the gateway counts, for Prometheus. Names of platforms and parts are labels; conversations never are."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mikan_gateway.health import HealthBoard


class Metrics:
    """The process's own registry; nothing is global."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.messages = Counter(
            "mikan_gateway_messages",
            "Messages received, by platform and what became of them.",
            ("platform", "result"),
            registry=self.registry,
        )
        self.intake_seconds = Histogram(
            "mikan_gateway_intake_seconds",
            "Seconds from receiving a message until it is durable.",
            buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
            registry=self.registry,
        )

        self.outputs_dropped = Counter(
            "mikan_gateway_outputs_dropped",
            "Operations of runs that a fault of ours kept from being shown.",
            registry=self.registry,
        )
        self.refused = Counter(
            "mikan_gateway_refused",
            "What a chat platform would not take for good, such as an answer to somebody who blocked the bot.",
            ("what",),
            registry=self.registry,
        )

    def observe(self, board: HealthBoard, offices: Callable[[], int]) -> None:
        """Have the parts' health and the number of offices read at each scrape."""
        self.registry.register(_State(board, offices))


class _State(Collector):
    def __init__(self, board: HealthBoard, offices: Callable[[], int]) -> None:
        self._board = board
        self._offices = offices

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("mikan_gateway_part_up", "1 while a part can do its work.", labels=["part"])
        for name, state in self._board.states().items():
            up.add_metric([name], float(state.ok))
        yield up
        yield GaugeMetricFamily("mikan_gateway_offices", "Offices that exist.", value=self._offices())
