"""The operator's picture of the cluster, and how it is corrected."""

import asyncio
from typing import Any

from mikan_operator import resync as resync_module
from mikan_operator.exceptions import Unavailable
from mikan_operator.observed import PodObject, SecretObject
from mikan_operator.resync import FIRST_RETRY_SECONDS, SETTLE_SECONDS, Resync
from mikan_operator.storage.kinds import OFFICE, POD
from mikan_operator.watches import Watches
from mikan_operator_testing.live import office
from mikan_operator_testing.virtual_time import run_virtual
from mikan_operator_testing.world import World


def pod(name: str = "a", uid: str = "u", version: str = "5", **extra: Any) -> PodObject:
    metadata = {"name": name, "uid": uid, "resourceVersion": version, "labels": {"mikan.dev/office": "k"}, **extra}
    return PodObject.of({"metadata": metadata})


def test_the_same_state_twice_is_no_news() -> None:
    pods = World().cache.pods

    assert pods.put(pod()) is True
    assert pods.put(pod()) is False


def test_a_state_from_before_is_no_news() -> None:
    pods = World().cache.pods
    pods.put(pod(version="10"))

    assert pods.put(pod(version="9")) is False
    assert pods.put(pod(version="11")) is True


def test_a_namesake_with_a_new_uid_replaces_the_old_one() -> None:
    pods = World().cache.pods
    pods.put(pod(uid="old", version="10"))

    assert pods.put(pod(uid="new", version="3")) is True
    assert pods.remove("a", "old") is False
    assert [p.meta.uid for p in pods.by("k")] == ["new"]


def test_an_index_forgets_what_was_removed() -> None:
    pods = World().cache.pods
    pods.put(pod())

    assert pods.remove("a", "u") is True
    assert pods.by("k") == []
    assert len(pods) == 0


def test_a_listing_takes_away_what_vanished_unseen_and_keeps_what_came_meanwhile() -> None:
    pods = World().cache.pods
    pods.put(pod("gone"))
    known = pods.identities()
    pods.put(pod("fresh"))

    missed = pods.replace([], known)

    assert [p.meta.name for p in missed] == ["gone"]
    assert [p.meta.name for p in pods] == ["fresh"]


def test_of_a_secret_only_names_are_kept() -> None:
    secret = SecretObject.of({"metadata": {"name": "s", "uid": "u"}, "data": {"TOKEN": "aHVudGVyMg=="}})

    assert secret.keys == {"TOKEN"}
    assert "aHVudGVyMg" not in repr(secret)


def make_resync(world: World) -> tuple[Resync, Watches]:
    watches = Watches(lambda: 0.0, tasks=list)
    return Resync(world.store, world.cache, world.intake, watches, world.children), watches


def test_the_first_listing_waits_for_an_api_server_that_is_away() -> None:
    world = World()
    resync, watches = make_resync(world)
    world.store.failures["list", "pods"] = Unavailable("no connection")

    async def scenario() -> None:
        first = asyncio.create_task(resync.first())
        await asyncio.sleep(600)
        assert (watches.listed, watches.listing_fault) == (False, "listing pods: no connection")
        del world.store.failures["list", "pods"]
        async with asyncio.timeout(2 * FIRST_RETRY_SECONDS):
            await first

    run_virtual(scenario())
    assert (watches.listed, watches.listing_fault) == (True, "")


async def test_the_first_listing_makes_up_for_what_happened_before() -> None:
    world = World()
    world.store.changed = lambda kind, manifest, deleted: None
    world.store.put(OFFICE, office("general"))
    world.store.changed = world._changed
    resync, watches = make_resync(world)

    await resync.first()
    await world.settle()

    assert watches.listed
    assert len(world.store.names(POD)) == 2


def test_what_was_deleted_between_the_first_listing_and_the_watches_is_found_soon() -> None:
    world = World()
    resync, watches = make_resync(world)

    async def scenario() -> None:
        world.store.put(OFFICE, office("general"))
        await resync.first()
        assert len(world.cache.offices) == 1
        world.store.changed = lambda kind, manifest, deleted: None
        world.store._objects.clear()
        follow = asyncio.create_task(resync.follow())
        await asyncio.sleep(2 * SETTLE_SECONDS)
        follow.cancel()

    run_virtual(scenario())
    assert len(world.cache.offices) == 0
    assert not watches.dead


async def test_a_change_that_only_the_listing_showed_strikes_the_watch(monkeypatch: Any) -> None:
    monkeypatch.setattr(resync_module, "GRACE_SECONDS", 0.0)
    world = World()
    resync, watches = make_resync(world)
    await resync.first()
    world.store.changed = lambda kind, manifest, deleted: None
    world.store.put(OFFICE, office("general"))

    await resync.again()
    assert not watches.dead
    world.store.put(OFFICE, office("other"))
    await resync.again()

    assert watches.dead


async def test_a_watch_that_was_only_slow_is_not_struck(monkeypatch: Any) -> None:
    monkeypatch.setattr(resync_module, "GRACE_SECONDS", 0.0)
    world = World()
    resync, watches = make_resync(world)
    world.store.changed = lambda kind, manifest, deleted: None
    for name in ("one", "two", "three"):
        world.store.put(OFFICE, office(name))
        read = world.store.list_all

        async def delivering(kind: Any, label_selector: str = "", read: Any = read) -> Any:
            watches.delivered(kind)
            return await read(kind, label_selector)

        monkeypatch.setattr(world.store, "list_all", delivering)
        await resync.again()

    assert not watches.dead
