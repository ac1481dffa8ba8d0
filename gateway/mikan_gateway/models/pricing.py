"""What a call costs: a model's price times its tokens, and the usage object that says so to the client."""

from dataclasses import dataclass

from mikan_gateway.models.chat import JsonObject, Usage
from mikan_gateway.models.config import ModelEntry

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens. Cached input and cache writes cost what input does unless said otherwise."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """USD of a call."""
        cached = self.input if self.cached_input is None else self.cached_input
        write = self.input if self.cache_write is None else self.cache_write
        fresh = max(usage.prompt - usage.cached - usage.cache_write, 0)
        total = fresh * self.input + usage.cached * cached + usage.cache_write * write + usage.completion * self.output
        return total / MILLION


def configured_price(entry: ModelEntry | None) -> Price | None:
    """The price that an admin configured, if any."""
    if entry is None or entry.input_usd_per_million is None or entry.output_usd_per_million is None:
        return None
    return Price(
        entry.input_usd_per_million,
        entry.output_usd_per_million,
        entry.cached_input_usd_per_million,
        entry.cache_write_usd_per_million,
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def read_usage(raw: JsonObject) -> Usage:
    """Usage in the OpenAI form (and litellm's additions to it); what is missing or odd counts 0."""
    prompt = raw.get("prompt_tokens_details")
    completion = raw.get("completion_tokens_details")
    prompt = prompt if isinstance(prompt, dict) else {}
    completion = completion if isinstance(completion, dict) else {}
    return Usage(
        prompt=_count(raw.get("prompt_tokens")),
        completion=_count(raw.get("completion_tokens")),
        cached=_count(prompt.get("cached_tokens")),
        cache_write=_count(prompt.get("cache_creation_tokens")),
        reasoning=_count(completion.get("reasoning_tokens")),
    )


def usage_object(usage: Usage, price: Price | None) -> JsonObject:
    """The ``usage`` of a last chunk."""
    said: JsonObject = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "cache_creation_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        "cost_usd": round(price.cost(usage), 9) if price else 0.0,
        "priced": price is not None,
    }
    if usage.estimated:
        said["estimated"] = True
    return said
