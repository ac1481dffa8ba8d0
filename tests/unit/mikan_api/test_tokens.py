"""Office tokens."""

import pytest

from mikan_api.exceptions import TokenRefused
from mikan_api.identity import parse_office_key
from mikan_api.tokens import OfficeClaims, issue_token, parse_epoch, verify_bearer, verify_token

KEY, OTHER = b"k" * 32, b"o" * 32
CLAIMS = OfficeClaims(parse_office_key("v1-slack-c123-f1bbf4ab194ff2ea"), "5b1f", 2)
TOKEN = issue_token(KEY, "gateway", CLAIMS)


def test_the_exact_form() -> None:
    mac = "Hpm7oCwwmPF_f_Moc4DjgIsCjr-GlQBgrs_bWaUZ_es"

    assert f"mkn1.gateway.v1-slack-c123-f1bbf4ab194ff2ea.5b1f.2.{mac}" == TOKEN


def test_the_same_input_gives_the_same_token() -> None:
    assert issue_token(KEY, "gateway", CLAIMS) == TOKEN


def test_a_token_says_whose_it_is() -> None:
    assert verify_token([KEY], "gateway", TOKEN) == CLAIMS


def test_during_a_rotation_both_keys_are_valid() -> None:
    assert verify_token([OTHER, KEY], "gateway", TOKEN) == CLAIMS


@pytest.mark.parametrize(
    "token",
    [
        "",
        "mkn1",
        TOKEN[:-1],
        TOKEN + "x",
        TOKEN.replace("mkn1", "mkn2"),
        TOKEN.replace(".2.", ".3."),
        TOKEN.replace("5b1f", "5b1e"),
        TOKEN.replace("c123", "c124"),
        TOKEN + "é",
        "x" * 600,
    ],
)
def test_what_was_changed_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(TokenRefused) as refused:
        verify_token([KEY], "gateway", token)

    assert not token or token not in str(refused.value)


def test_another_audience_is_refused() -> None:
    with pytest.raises(TokenRefused, match="not for models"):
        verify_token([KEY], "models", TOKEN)


def test_another_key_is_refused() -> None:
    with pytest.raises(TokenRefused, match="wrong signature"):
        verify_token([OTHER], "gateway", TOKEN)


def test_a_short_key_issues_nothing() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes"):
        issue_token(b"short", "gateway", CLAIMS)


@pytest.mark.parametrize(
    ("written", "epoch"),
    [("0", 0), ("7", 7), ("9" * 15, 10**15 - 1), ("9" * 16, 0), ("9" * 5000, 0), ("-1", 0), ("\u0663", 0), ("", 0)],
)
def test_an_epoch_is_at_most_fifteen_ascii_digits(written: str, epoch: int) -> None:
    assert parse_epoch(written) == epoch


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "Bearer "])
def test_a_bearer_is_who_the_token_says(scheme: str) -> None:
    assert verify_bearer([KEY], "gateway", f"{scheme} {TOKEN}") == CLAIMS


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer  ", f"Basic {TOKEN}", TOKEN])
def test_a_header_without_a_bearer_is_told_the_form(header: str | None) -> None:
    with pytest.raises(TokenRefused, match=r"^send the office's token as 'Authorization: Bearer <token>'$") as refused:
        verify_bearer([KEY], "gateway", header)

    assert TOKEN not in str(refused.value)
