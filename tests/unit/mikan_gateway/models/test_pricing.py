"""Prices and usage."""

import pytest

from mikan_gateway.models.chat import Usage
from mikan_gateway.models.config import ModelEntry
from mikan_gateway.models.pricing import Price, configured_price, read_usage, usage_object


@pytest.mark.parametrize(
    ("price", "usd"),
    [
        (Price(3, 15), 0.003 * 1 + 0.0015),
        (Price(3, 15, cached_input=0.3), 0.0006 * 3 + 0.0004 * 0.3 + 0.0015),
        (Price(3, 15, cached_input=0.3, cache_write=3.75), 0.0005 * 3 + 0.0004 * 0.3 + 0.0001 * 3.75 + 0.0015),
    ],
)
def test_cached_tokens_cost_what_they_should(price: Price, usd: float) -> None:
    usage = Usage(prompt=1000, completion=100, cached=400, cache_write=100)

    assert price.cost(usage) == pytest.approx(usd)


def test_more_cached_than_prompt_tokens_never_cost_less_than_nothing() -> None:
    assert Price(3, 15, cached_input=0).cost(Usage(prompt=10, cached=50)) == 0


def test_a_model_without_prices_has_none() -> None:
    assert configured_price(ModelEntry(context_window=10)) is None
    assert configured_price(None) is None
    assert configured_price(ModelEntry(input_usd_per_million=0, output_usd_per_million=0)) == Price(0, 0)


def test_odd_usage_counts_nothing() -> None:
    raw = {"prompt_tokens": "7", "completion_tokens": -3, "prompt_tokens_details": None}

    assert read_usage(raw) == Usage()


def test_usage_says_that_it_was_estimated() -> None:
    said = usage_object(Usage(prompt=10, completion=5, cached=4, estimated=True), Price(1, 2))

    assert said == {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_creation_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
        "cost_usd": 0.00002,
        "priced": True,
        "estimated": True,
    }
