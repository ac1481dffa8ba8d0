"""Composition: the cap that holds, the offices that live, and what ends a start."""

import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from mikan_api.settings import Settings
from mikan_gateway.models.process import ModelsProcess, WatchedOffices
from mikan_gateway.models.spending import Cap
from models_service import OFFICE, ModelsFixture


@dataclass
class FixedSettings:
    current: Settings


@pytest.mark.parametrize(
    ("document", "settings", "cap"),
    [
        ({}, Settings(), None),
        ({"capUsdPerOffice": 5, "capWindowHours": 12}, Settings(), Cap(5, 12)),
        ({}, Settings(models_cap_usd_per_office=7), Cap(7, 24)),
        ({"capUsdPerOffice": 5, "capWindowHours": 12}, Settings(models_cap_usd_per_office=7), Cap(7, 24)),
        ({"capUsdPerOffice": 5}, Settings(models_cap_usd_per_office=7), Cap(5, 24)),
    ],
)
async def test_the_tighter_cap_holds(
    models: ModelsFixture, document: dict[str, Any], settings: Settings, cap: Cap | None
) -> None:
    models.configure(document)
    process = ModelsProcess(models.config, models.offices, FixedSettings(settings))
    async with process.app.router.lifespan_context(process.app):
        assert process.cap() == cap


def directory(record: object, synced: bool = True, reason: str = "") -> Any:
    return SimpleNamespace(record={OFFICE: record}.get, synced=synced, health=lambda: SimpleNamespace(reason=reason))


def test_an_office_that_is_being_deleted_is_gone() -> None:
    alive = SimpleNamespace(uid="u", epoch=3, deleting=False)
    dying = SimpleNamespace(uid="u", epoch=3, deleting=True)

    assert WatchedOffices(directory(alive)).get(OFFICE) == ("u", 3)
    assert WatchedOffices(directory(dying)).get(OFFICE) is None
    assert WatchedOffices(directory(None)).get(OFFICE) is None


def test_offices_are_at_fault_while_their_watch_is() -> None:
    never = WatchedOffices(directory(None, synced=False, reason="no list of the offices yet"))
    later = WatchedOffices(directory(None, reason="the watch was cut off"))

    assert (never.fault(), never.listed) == ("no list of the offices yet", False)
    assert (later.fault(), later.listed) == ("the watch was cut off", True)
    assert WatchedOffices(directory(None)).fault() == ""


def test_a_start_that_cannot_be_ends_with_2_and_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mikan_gateway.models"], env={}, capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 2
    assert done.stderr == "mikan-models: MIKAN_OFFICES_NAMESPACE is not set\n"
