"""Office identity: exact values."""

import dataclasses
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mikan_api import names
from mikan_api.exceptions import InvalidAddress
from mikan_api.identity import OfficeAddress, Platform, office_key, parse_office_key

READABLE = {
    "C123": "c123",
    "GH_owner_repo_12": "gh-owner-repo-12",
    "-100200": "100200",
    "a  b__c": "a-b-c",
    "…": "conversation",
    "---": "conversation",
    "ÄÖÜ": "conversation",
    "x" * 40: "x" * 32,
    "x" * 31 + "-y": "x" * 31,
}


def test_the_example_of_the_specification() -> None:
    assert OfficeAddress(Platform.SLACK, "C123").key == "v1-slack-c123-f1bbf4ab194ff2ea"


@pytest.mark.parametrize(("raw", "readable"), READABLE.items())
def test_the_readable_part(raw: str, readable: str) -> None:
    digest = hashlib.sha256(f"office-address-v1\0web\0{raw}".encode()).hexdigest()[:16]

    assert office_key(OfficeAddress(Platform.WEB, raw)) == f"v1-web-{readable}-{digest}"


def test_platforms() -> None:
    assert [p.value for p in Platform] == ["slack", "discord", "telegram", "github", "console", "web"]


def test_an_unknown_platform_is_named() -> None:
    with pytest.raises(InvalidAddress, match="unknown platform 'irc'"):
        OfficeAddress.parse("irc", "x")


@pytest.mark.parametrize(
    "raw", ["", ".", "..", "a:b", "a/b", "a\\b", "\x00", "a\n", "\x7f", "\x80", "\x9f", "x" * 513, "\ud800"]
)
def test_ids_that_are_refused(raw: str) -> None:
    with pytest.raises(InvalidAddress):
        OfficeAddress(Platform.SLACK, raw)


@pytest.mark.parametrize("raw", ["a", "...", "a.b", " ", "日本", "x" * 512, "\xa0"])
def test_ids_that_are_accepted(raw: str) -> None:
    assert parse_office_key(OfficeAddress(Platform.SLACK, raw).key)


@given(st.sampled_from(Platform), st.text(min_size=1, max_size=64))
def test_every_key_is_a_name_that_the_cluster_takes(platform: Platform, raw: str) -> None:
    try:
        key = OfficeAddress(platform, raw).key
    except InvalidAddress:
        return

    assert len(key) <= 61
    assert parse_office_key(key) == key
    assert all(len(name(key)) <= 63 for name in (names.agent_pod, names.sandbox_pod, names.token_secret))


def test_an_address_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        OfficeAddress(Platform.SLACK, "C1").conversation_id = "C2"  # type: ignore[misc]


@pytest.mark.parametrize(
    "value", ["", "v1-slack-c123-f1bbf4ab194ff2e", "v2-slack-c123-f1bbf4ab194ff2ea", "../v1-slack-c-f1bbf4ab194ff2ea"]
)
def test_what_is_no_key(value: str) -> None:
    with pytest.raises(InvalidAddress):
        parse_office_key(value)
