"""Secrets are read anew, by name only, and masked wherever they could be shown."""

import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from mikan_agent.extensions.exceptions import ExtensionError
from mikan_agent.extensions.secrets import Secrets


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """A Secret as the kubelet mounts it: links to a directory that a rotation replaces."""
    data = tmp_path / "mount" / "..2026"
    data.mkdir(parents=True)
    (data / "TOKEN").write_text("hunter2")
    (tmp_path / "mount" / "..data").symlink_to("..2026")
    (tmp_path / "mount" / "TOKEN").symlink_to("..data/TOKEN")
    (tmp_path / "outside").write_text("not yours")
    return tmp_path / "mount"


def test_values_are_read_by_name(mounted: Path) -> None:
    secrets = Secrets(mounted)

    assert secrets.list() == ["TOKEN"]
    assert secrets.get("TOKEN") == "hunter2"


@pytest.mark.parametrize(
    "name", ["MISSING", "", ".", "..", "../outside", "..data", "..data/TOKEN", "TOKEN\0", "/etc/passwd"]
)
def test_nothing_but_a_key_of_the_secret_is_read(mounted: Path, name: str) -> None:
    assert Secrets(mounted).get(name) is None


def test_a_rotation_is_seen_by_the_next_read(mounted: Path) -> None:
    secrets = Secrets(mounted)
    (mounted / "..data" / "TOKEN").write_text("hunter3")

    assert secrets.get("TOKEN") == "hunter3"


def test_no_secret_is_no_error(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path / "none")

    assert (secrets.get("TOKEN"), secrets.list(), secrets.mask("text")) == (None, [], "text")


def test_a_value_that_is_no_text_is_not_shown(mounted: Path) -> None:
    (mounted / "KEY").write_bytes(b"\xff\xfe")

    with pytest.raises(ExtensionError, match=r"^the secret KEY is no text$"):
        Secrets(mounted).get("KEY")
    assert Secrets(mounted).mask("hunter2") == "***"


def test_every_line_of_a_value_is_masked_and_short_ones_are_left(mounted: Path) -> None:
    (mounted / "PEM").write_text("-----BEGIN-----\nAAAABBBB\n-----END-----\n")
    (mounted / "FLAG").write_text("on")
    secrets = Secrets(mounted)

    assert secrets.mask("on AAAABBBB hunter2 it") == "on *** *** it"
    assert secrets.found_in("see AAAABBBB")
    assert not secrets.found_in("on")
    assert "hunter2" not in repr(secrets)


def test_a_value_is_masked_as_urls_json_and_tracebacks_show_it(mounted: Path) -> None:
    value = "p@ss/\"w'o rd"
    (mounted / "PASSWORD").write_text(value)
    (mounted / "ACCOUNT").write_text(json.dumps({"type": "svc", "keys": [{"private": "BEGIN KEY\nAAAABBBBCCCC\n"}]}))
    mask = Secrets(mounted).mask

    assert mask(f"https://api.test/?k={quote_plus(value)}&l={quote(value)}") == "https://api.test/?k=***&l=***"
    assert mask(f"{json.dumps(value)} KeyError({value!r})") == "\"***\" KeyError('***')"
    assert mask("svc: bad key AAAABBBBCCCC") == "svc: bad key ***"
    assert not Secrets(mounted).found_in("svc")
