"""Files that change while the process runs."""

import asyncio
import json
import logging
import os
from pathlib import Path

import pytest

from mikan_api.exceptions import ConfigError
from mikan_api.mounted import (
    CHECK_SECONDS,
    Reloaded,
    follow,
    following,
    read_ascii,
    read_file,
    read_settings,
    read_token_keys,
)
from mikan_api.settings import Settings


@pytest.fixture
def source(tmp_path: Path) -> Reloaded[str]:
    def load() -> str:
        text = read_file(tmp_path / "value", "VALUE").decode()
        if text == "broken":
            raise ConfigError("value is broken")
        return text

    return Reloaded("value", load, lambda _: [tmp_path], "none yet")


async def test_a_change_is_taken_over(source: Reloaded[str], tmp_path: Path) -> None:
    (tmp_path / "value").write_text("one")
    await source.refresh()
    assert (source.current, source.fault) == ("one", "")

    (tmp_path / "value").write_text("three")
    assert await source.refresh() is True
    assert source.current == "three"


async def test_a_broken_change_keeps_the_last_good_value_and_says_why(source: Reloaded[str], tmp_path: Path) -> None:
    (tmp_path / "value").write_text("one")
    await source.refresh()
    (tmp_path / "value").write_text("broken")
    await source.refresh()
    assert (source.current, source.fault) == ("one", "value is broken")

    (tmp_path / "value").unlink()
    await source.refresh()
    assert (source.current, source.fault) == ("one", f"VALUE: {tmp_path / 'value'}: No such file or directory")

    (tmp_path / "value").write_text("four")
    await source.refresh()
    assert (source.current, source.fault) == ("four", "")


async def test_a_mounted_directory_that_is_turned_as_the_kubelet_does_is_seen(
    source: Reloaded[str], tmp_path: Path
) -> None:
    for name in ("..1", "..2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "value").write_text(name)
        os.utime(tmp_path / name / "value", (1, 1))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "value").symlink_to("..data/value")
    await source.refresh()
    assert source.current == "..1"

    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    await source.refresh()
    assert source.current == "..2"


async def test_nothing_is_loaded_again_without_a_change(tmp_path: Path) -> None:
    loads = []
    source = Reloaded("value", lambda: loads.append(1), lambda _: [tmp_path, tmp_path / "missing"], None)
    for _ in range(3):
        await source.refresh()

    assert len(loads) == 1


async def test_files_that_say_the_same_in_another_form_keep_the_very_same_value(tmp_path: Path) -> None:
    settings = _settings(tmp_path, {})
    before = settings.current
    (tmp_path / "settings.json").write_text("{  }")

    assert await settings.refresh() is False
    assert settings.current is before


async def test_a_fault_is_logged_once_and_what_cures_it_is_found_without_a_change_of_the_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[str | ConfigError] = ["one", ConfigError("busy"), ConfigError("busy"), "two"]

    def load() -> str:
        if isinstance(answer := answers.pop(0), ConfigError):
            raise answer
        return answer

    source = Reloaded.read("value", load, [tmp_path])
    (tmp_path / "value").write_text("")
    with caplog.at_level(logging.ERROR):
        assert [await source.refresh() for _ in range(3)] == [False, False, True]

    assert (source.current, source.fault) == ("two", "")
    assert [record.getMessage() for record in caplog.records] == ["mounted files not taken over"]


def test_a_process_that_needs_a_value_does_not_start_without_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^settings in .*settings\.json"):
        Reloaded.read("settings", lambda: read_settings(tmp_path), [tmp_path])


class Source:
    """Tells of one change, at its second look."""

    def __init__(self) -> None:
        self.looks = 0

    async def refresh(self) -> bool:
        self.looks += 1
        return self.looks == 2


async def test_every_source_is_looked_at_again_and_again_and_a_change_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    first, second = Source(), Source()
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 4:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await follow([first, second], lambda: told.append((first.looks, second.looks)))

    assert (first.looks, second.looks, told) == (3, 3, [(2, 2)])
    assert waited == [CHECK_SECONDS] * 4


async def test_nobody_looks_any_more_once_the_process_ends() -> None:
    before = asyncio.all_tasks()
    async with following(Source()):
        (task,) = asyncio.all_tasks() - before
    assert task.cancelled()


def _settings(directory: Path, document: object) -> Reloaded[Settings]:
    (directory / "settings.json").write_text(json.dumps(document))
    return Reloaded.read("settings", lambda: read_settings(directory), [directory])


async def test_overrides_win_leaf_by_leaf_from_the_moment_they_appear(tmp_path: Path) -> None:
    settings = _settings(tmp_path, {"llm": {"model": "a/b", "thinkingLevel": "low"}})
    (tmp_path / "overrides.json").write_text(json.dumps({"llm": {"model": "c/d"}}))
    await settings.refresh()

    assert (settings.current.llm.model, settings.current.llm.thinking_level) == ("c/d", "low")


@pytest.mark.parametrize(
    "document", [b"{", b'{"nonsense": 1}', b"[]", b'{"idleTimeout": "soon"}', b"\xff", b" " * 1048577]
)
async def test_settings_that_are_invalid_leave_the_last_good_ones(tmp_path: Path, document: bytes) -> None:
    settings = _settings(tmp_path, {"idleTimeout": "20m"})
    (tmp_path / "settings.json").write_bytes(document)
    await settings.refresh()

    assert settings.current.idle_timeout == "20m"
    assert settings.fault.startswith(f"settings in {tmp_path}: ")
    (tmp_path / "settings.json").write_text('{"idleTimeout": "30m"}')
    await settings.refresh()
    assert (settings.current.idle_timeout, settings.fault) == ("30m", "")


def test_during_a_rotation_there_are_two_keys(tmp_path: Path) -> None:
    (tmp_path / "current").write_bytes(b"n" * 32)
    assert read_token_keys(tmp_path) == (b"n" * 32,)
    (tmp_path / "previous").write_bytes(b"o" * 40)

    assert read_token_keys(tmp_path) == (b"n" * 32, b"o" * 40)


def test_a_key_that_is_short_or_missing_is_named_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^MIKAN_KEYS_DIR: \S+/current: No such file or directory$"):
        read_token_keys(tmp_path)
    (tmp_path / "current").write_bytes(b"n" * 31)
    with pytest.raises(ConfigError, match=r"^MIKAN_KEYS_DIR: \S+/current holds fewer than 32 bytes$"):
        read_token_keys(tmp_path)


def test_a_token_file_is_ascii_with_white_space_around_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b" abc\n")
    assert read_ascii(file, "TOKEN") == "abc"
    file.write_bytes("ä".encode())
    with pytest.raises(ConfigError) as refused:
        read_ascii(file, "TOKEN")
    assert str(refused.value) == f"TOKEN: {file} is not ASCII"
