"""Kopf watches, and does nothing else."""

import logging
from typing import Any

from mikan_operator.handlers import build_registry, build_settings
from mikan_operator.storage.kinds import OFFICE
from mikan_operator.watches import SELECTORS, Watches
from mikan_operator_testing.world import World


def test_no_handler_makes_kopf_keep_anything_in_an_object() -> None:
    registry = build_registry(World().intake, Watches(lambda: 0.0))

    assert len(registry._watching.get_all_handlers()) == len(SELECTORS)
    assert list(registry._changing.get_all_handlers()) == []
    assert list(registry._spawning.get_all_handlers()) == []
    assert list(registry._indexing.get_all_handlers()) == []


def test_kopf_is_silent_alone_and_impatient() -> None:
    settings = build_settings()

    assert settings.posting.enabled is False
    assert settings.peering.standalone is True
    assert settings.scanning.disabled is True
    assert settings.watching.inactivity_timeout == 70.0
    # A request is tried again every other second for a minute, so a watch is back as soon as the API server is.
    assert settings.networking.error_backoffs == (0.5, 1.0, *[2.0] * 30)
    assert isinstance(settings.watching.server_timeout, int)
    assert not logging.getLogger("kopf.objects").isEnabledFor(logging.INFO)


async def test_an_event_reaches_the_cache_and_the_watchs_record() -> None:
    world = World()
    watches = Watches(lambda: 0.0)
    registry = build_registry(world.intake, watches)
    observe: Any = next(h for h in registry._watching.get_all_handlers() if h.id == "watch-offices").fn
    manifest = {"metadata": {"name": "o", "uid": "u", "resourceVersion": "1"}, "spec": {}}

    await observe(event={"type": "ADDED", "object": manifest})
    assert len(world.cache.offices) == 1
    await observe(event={"type": "DELETED", "object": manifest})

    assert len(world.cache.offices) == 0
    assert watches.count(OFFICE) == 2
