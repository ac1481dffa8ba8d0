"""Labels that clients cannot multiply."""

from prometheus_client import CollectorRegistry

from mikan_gateway.models.metrics import MAX_MODELS, Metrics


def test_names_that_nothing_answered_to_share_one_label() -> None:
    metrics = Metrics(CollectorRegistry())

    assert metrics.labels("up", "made-up", succeeded=False) == ("up", "other")
    assert metrics.labels("up", "real", succeeded=True) == ("up", "real")
    assert metrics.labels("up", "real", succeeded=False) == ("up", "real")


def test_beyond_a_number_of_models_all_share_one_label() -> None:
    metrics = Metrics(CollectorRegistry())
    for number in range(MAX_MODELS):
        metrics.labels("up", str(number), succeeded=True)

    assert metrics.labels("up", "one-more", succeeded=True) == ("up", "other")
    assert metrics.labels("up", "7", succeeded=True) == ("up", "7")
