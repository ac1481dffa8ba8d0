"""Files that change while the process runs."""

import os
from pathlib import Path

import pytest

from mikan_api.exceptions import ConfigError
from mikan_gateway.models.files import Reloaded, read_file


@pytest.fixture
def source(tmp_path: Path) -> Reloaded[str]:
    def load() -> str:
        text = read_file(tmp_path / "value").decode()
        if text == "broken":
            raise ConfigError("value is broken")
        return text

    return Reloaded("value", load, lambda _: [tmp_path])


async def test_a_change_is_taken_over(source: Reloaded[str], tmp_path: Path) -> None:
    (tmp_path / "value").write_text("one")
    await source.refresh()
    assert (source.value, source.fault) == ("one", "")

    (tmp_path / "value").write_text("three")
    await source.refresh()
    assert source.value == "three"


async def test_a_broken_change_keeps_the_last_good_value_and_says_why(source: Reloaded[str], tmp_path: Path) -> None:
    (tmp_path / "value").write_text("one")
    await source.refresh()
    (tmp_path / "value").write_text("broken")
    await source.refresh()
    assert (source.value, source.fault) == ("one", "value is broken")

    (tmp_path / "value").unlink()
    await source.refresh()
    assert (source.value, source.fault) == ("one", f"{tmp_path / 'value'} cannot be read: No such file or directory")

    (tmp_path / "value").write_text("four")
    await source.refresh()
    assert (source.value, source.fault) == ("four", "")


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
    assert source.value == "..1"

    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    await source.refresh()
    assert source.value == "..2"


async def test_nothing_is_loaded_again_without_a_change(tmp_path: Path) -> None:
    loads = []
    source = Reloaded("value", lambda: loads.append(1), lambda _: [tmp_path, tmp_path / "missing"])
    for _ in range(3):
        await source.refresh()

    assert len(loads) == 1
