import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway_cluster import AWAY, PlayedApi, manifest
from gateway_doubles import key_of
from gateway_edges import FixedSettings, turns
from mikan_api.identity import OfficeKey
from mikan_api.settings import Llm, Settings
from mikan_gateway.offices import directory as module
from mikan_gateway.offices.api import WatchExpired
from mikan_gateway.offices.directory import OfficeDirectory


class Watch:
    """A directory over a played API, without pauses."""

    def __init__(self) -> None:
        self.api = PlayedApi()
        self.settings = FixedSettings()
        self.directory = OfficeDirectory(self.api, "offices", self.settings)
        self.told: list[OfficeKey] = []
        self.directory.listen(self.told.append)

    async def start(self) -> None:
        self.directory.start()
        await self.directory.wait_synced()

    async def send(self, *events: tuple[str, dict[str, object]] | Exception | None) -> None:
        for event in events:
            self.api.events.put_nowait(event)
        await turns()


@pytest.fixture
async def watch(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watch]:
    monkeypatch.setattr(module, "REWATCH_PAUSE", 0)
    monkeypatch.setattr(module, "MAX_PAUSE", 0)
    watch = Watch()
    yield watch
    await watch.directory.stop()


async def test_what_was_there_and_what_comes_is_known(watch: Watch) -> None:
    watch.api.put(manifest("C1"))
    await watch.start()
    await watch.send(("ADDED", manifest("C2", 101, "uid-2")), ("MODIFIED", manifest("C1", 102, spec={"suspend": True})))

    first, second = watch.directory.get(key_of("C1")), watch.directory.get(key_of("C2"))
    assert first is not None
    assert first.suspended
    assert second is not None
    assert second.uid == "uid-2"
    assert watch.told == [key_of("C1"), key_of("C2"), key_of("C1")]
    assert watch.directory.health().ok


async def test_what_is_deleted_is_forgotten(watch: Watch) -> None:
    watch.api.put(manifest("C1"))
    await watch.start()
    await watch.send(("DELETED", manifest("C1", 101)))

    assert watch.directory.get(key_of("C1")) is None


async def test_a_view_is_built_once_per_change_of_object_or_settings(watch: Watch) -> None:
    watch.api.put(manifest("C1"))
    await watch.start()
    before = watch.directory.get(key_of("C1"))

    assert watch.directory.get(key_of("C1")) is before
    watch.settings.current = Settings(llm=Llm(model="a/b"))
    after = watch.directory.get(key_of("C1"))
    assert after is not None
    assert after.llm.model == "a/b"


async def test_a_watch_that_ends_goes_on_after_the_last_version(watch: Watch) -> None:
    await watch.start()
    await watch.send(("BOOKMARK", {"metadata": {"resourceVersion": "150"}}), None)

    assert watch.api.requests == ["list", "watch 100", "watch 150"]


async def test_after_410_everything_is_listed_again(watch: Watch) -> None:
    watch.api.put(manifest("C1"))
    await watch.start()
    del watch.api.objects[key_of("C1")]
    watch.api.put(manifest("C2"))
    await watch.send(WatchExpired("too old"))

    assert watch.api.requests == ["list", "watch 100", "list", "watch 100"]
    assert watch.directory.get(key_of("C1")) is None
    assert watch.directory.get(key_of("C2")) is not None


async def test_a_watch_that_breaks_shows_until_it_works_again(watch: Watch) -> None:
    await watch.start()
    gate = asyncio.Event()
    real = watch.api.list

    async def held() -> object:
        await gate.wait()
        return await real()

    watch.api.list = held  # type: ignore[method-assign,assignment]
    await watch.send(AWAY)
    assert watch.directory.health().reason == "connection refused"
    assert watch.directory.running

    gate.set()
    await turns()
    assert watch.directory.health().ok


async def test_before_the_first_list_nothing_is_well(watch: Watch) -> None:
    watch.api.failures = [AWAY]
    assert not watch.directory.health().ok
    await watch.start()

    assert watch.directory.health().ok
    assert watch.api.requests[:2] == ["list", "list"]


async def test_an_object_that_is_none_of_ours_is_ignored(watch: Watch) -> None:
    watch.api.put(manifest("C1", name="v1-console-c1-0000000000000000"))
    await watch.start()

    assert list(watch.directory) == []


async def test_an_older_observation_does_not_replace_a_newer_one(watch: Watch) -> None:
    watch.api.put(manifest("C1", 9))
    await watch.start()
    watch.directory.observe(manifest("C1", 10, spec={"suspend": True}))
    watch.directory.observe(manifest("C1", 9))

    view = watch.directory.get(key_of("C1"))
    assert view is not None
    assert view.suspended
