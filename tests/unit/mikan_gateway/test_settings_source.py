import json
import os
from pathlib import Path
from typing import Any

import pytest

from mikan_api.exceptions import ConfigError
from mikan_gateway.settings_source import MountedSettings


def write(directory: Path, name: str, document: Any) -> None:
    """As the kubelet does: another file takes the name."""
    staged = directory / ".staged"
    staged.write_text(document if isinstance(document, str) else json.dumps(document))
    os.replace(staged, directory / name)


async def test_a_change_is_taken_over(tmp_path: Path) -> None:
    write(tmp_path, "settings.json", {"idleTimeout": "15m"})
    settings = MountedSettings(tmp_path)
    write(tmp_path, "settings.json", {"idleTimeout": "20m"})
    await settings.refresh()

    assert settings.current.idle_timeout == "20m"
    assert settings.health().ok


async def test_overrides_win_leaf_by_leaf_from_the_moment_they_appear(tmp_path: Path) -> None:
    write(tmp_path, "settings.json", {"llm": {"model": "a/b", "thinkingLevel": "low"}})
    settings = MountedSettings(tmp_path)
    write(tmp_path, "overrides.json", {"llm": {"model": "c/d"}})
    await settings.refresh()

    assert (settings.current.llm.model, settings.current.llm.thinking_level) == ("c/d", "low")


async def test_nothing_new_keeps_the_very_same_settings(tmp_path: Path) -> None:
    write(tmp_path, "settings.json", {})
    settings = MountedSettings(tmp_path)
    before = settings.current
    await settings.refresh()
    write(tmp_path, "settings.json", {})
    await settings.refresh()

    assert settings.current is before


@pytest.mark.parametrize("document", ["{", '{"nonsense": 1}', "[]", '{"idleTimeout": "soon"}'])
async def test_what_is_invalid_is_reported_and_the_last_good_one_stays(tmp_path: Path, document: str) -> None:
    write(tmp_path, "settings.json", {"idleTimeout": "20m"})
    settings = MountedSettings(tmp_path)
    write(tmp_path, "settings.json", document)
    await settings.refresh()

    assert settings.current.idle_timeout == "20m"
    assert not settings.health().ok
    write(tmp_path, "settings.json", {"idleTimeout": "30m"})
    await settings.refresh()
    assert (settings.current.idle_timeout, settings.health().ok) == ("30m", True)


@pytest.mark.parametrize("document", [None, "{", '{"nonsense": 1}'])
def test_a_process_does_not_start_without_good_settings(tmp_path: Path, document: str | None) -> None:
    if document is not None:
        write(tmp_path, "settings.json", document)

    with pytest.raises(ConfigError, match="settings in"):
        MountedSettings(tmp_path)
