"""Prometheus metrics of model calls. Nothing is labelled by office, and models by name only as long as they are few."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mikan_gateway.models.chat import Usage

MAX_MODELS = 200
OTHER = "other"
OUTCOMES = frozenset(
    {
        "ok",
        "cancelled",
        "internal_error",
        "too_many_calls",
        "context_length_exceeded",
        "model_not_found",
        "provider_fault",
        "provider_forbidden",
        "provider_key_refused",
        "rate_limit_exceeded",
        "server_error",
        "stream_cut",
        "upstream_timeout",
        "upstream_unreachable",
    }
)
"""Outcomes with a name of their own; the rest, which an upstream may name as it likes, is ``upstream_refused``."""
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """Counts calls."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("provider", "model")
        self.registry = registry
        self._calls = Counter(
            "mikan_models_calls",
            "Model calls by outcome.",
            (*labels, "outcome"),
            registry=registry,
        )
        self._tokens = Counter("mikan_models_tokens", "Tokens by kind.", (*labels, "kind"), registry=registry)
        self._cost = Counter("mikan_models_cost_usd", "Cost of calls in USD.", labels, registry=registry)
        self._first = Histogram(
            "mikan_models_first_chunk_seconds", "Call to first chunk.", labels, registry=registry, buckets=_SECONDS
        )
        self._whole = Histogram(
            "mikan_models_call_seconds", "Call to its end.", labels, registry=registry, buckets=_SECONDS
        )
        self._refused = Counter(
            "mikan_models_refused", "Requests refused before a provider was chosen.", ("code",), registry=registry
        )
        self.running = Gauge("mikan_models_calls_running", "Model calls under way.", registry=registry)
        self.fault = Gauge(
            "mikan_models_fault", "1 while a part is at fault (see /readyz).", ("part",), registry=registry
        )
        self._models: set[tuple[str, str]] = set()

    def labels(self, provider: str, model: str, succeeded: bool) -> tuple[str, str]:
        """Labels of a call. A client chooses the model's name, so only names that an upstream answered to count."""
        if (provider, model) in self._models:
            return provider, model
        if succeeded and len(self._models) < MAX_MODELS:
            self._models.add((provider, model))
            return provider, model
        return provider, OTHER

    def refused(self, code: str) -> None:
        """Count a request that reached no provider."""
        self._refused.labels(code).inc()

    def ended(
        self, labels: tuple[str, str], outcome: str, usage: Usage, usd: float, first: float | None, whole: float
    ) -> None:
        """Count a call that ended. Times in seconds."""
        self._calls.labels(*labels, outcome if outcome in OUTCOMES else "upstream_refused").inc()
        kinds = {"input": usage.prompt, "output": usage.completion, "cached": usage.cached}
        for kind, tokens in kinds.items():
            self._tokens.labels(*labels, kind).inc(tokens)
        self._cost.labels(*labels).inc(usd)
        if first is not None:
            self._first.labels(*labels).observe(first)
        self._whole.labels(*labels).observe(whole)
