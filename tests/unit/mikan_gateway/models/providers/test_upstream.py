"""What refusals become."""

import httpx
import pytest

from mikan_gateway.models.providers.upstream import Refusals

REFUSALS = Refusals("up", ["sk-secret-key"])


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (401, "invalid_api_key", "Incorrect API key: sk-s***", (401, "provider_key_refused")),
        (403, "", "no", (403, "provider_forbidden")),
        (400, "context_length_exceeded", "too long", (400, "context_length_exceeded")),
        (400, "", "This model's maximum context length is 8192 tokens", (400, "context_length_exceeded")),
        (400, "", "prompt is too long: 210000 tokens > 200000 maximum", (400, "context_length_exceeded")),
        (
            400,
            "",
            "The input token count (9) exceeds the maximum number of tokens allowed (8)",
            (400, "context_length_exceeded"),
        ),
        (400, "invalid_value", "temperature", (400, "invalid_value")),
        (400, "Bad Code <script>", "x", (400, "upstream_refused")),
        (404, "", "no such model", (404, "model_not_found")),
        (429, "", "slow down", (429, "rate_limit_exceeded")),
        (429, "insufficient_quota", "pay", (429, "insufficient_quota")),
        (500, "", "boom", (500, "server_error")),
        (529, "", "overloaded", (529, "server_error")),
        (504, "", "late", (504, "upstream_timeout")),
        (302, "", "", (502, "server_error")),
    ],
)
def test_a_refusal_keeps_what_a_client_decides_by(
    status: int, code: str, message: str, expected: tuple[int, str]
) -> None:
    error = REFUSALS.refused(status, code, message)

    assert (error.status, error.code) == expected


def test_a_key_that_was_refused_is_never_quoted() -> None:
    error = REFUSALS.refused(401, "", "Incorrect API key provided: sk-se**key")

    assert error.message == "provider up refused the key it is configured with; an admin must replace it"


def test_secrets_in_a_message_are_masked_and_it_is_kept_short() -> None:
    error = REFUSALS.refused(500, "", "bad\nheader sk-secret-key " + "x" * 5000)

    assert error.message.startswith("up: bad header *** xxx")
    assert len(error.message) < 1010


@pytest.mark.parametrize(
    ("said", "kept"), [("7", "7"), ("Wed, 21 Oct 2026 07:28:00 GMT",) * 2, ("1\r\nx: y", None), ("", None)]
)
def test_retry_after_is_kept_if_it_can_be_a_header(said: str, kept: str | None) -> None:
    assert REFUSALS.refused(429, "", "", said).retry_after == kept


def test_an_unreachable_upstream_is_told_from_a_late_one_without_its_address() -> None:
    unreachable = REFUSALS.unreachable(httpx.ConnectError("http://10.0.0.1 refused"))
    late = REFUSALS.unreachable(httpx.ReadTimeout("http://10.0.0.1"))

    assert (unreachable.status, unreachable.code, late.status, late.code) == (
        502,
        "upstream_unreachable",
        504,
        "upstream_timeout",
    )
    assert "10.0.0.1" not in unreachable.message + late.message
