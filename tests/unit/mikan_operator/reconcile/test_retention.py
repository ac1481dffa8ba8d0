"""Offices whose data is to go with them."""

from mikan_api import names
from mikan_operator.exceptions import NamespaceTerminating
from mikan_operator.storage.kinds import OFFICE, POD
from mikan_operator_testing.live import office
from mikan_operator_testing.world import World


def finalizers(world: World, key: str) -> list[str]:
    found = world.store.peek(OFFICE, key)
    assert found is not None
    return list(found["metadata"].get("finalizers", []))


def delete(world: World, key: str) -> None:
    found = world.store.peek(OFFICE, key)
    assert found is not None
    gone = {**found["metadata"], "deletionTimestamp": "2026-03-01T12:00:00Z"}
    world.store.put(OFFICE, {**found, "metadata": gone})


async def test_an_office_that_keeps_its_data_has_no_finalizer() -> None:
    world = World()

    key = await world.open()

    assert finalizers(world, key) == []


async def test_the_finalizer_follows_the_spec() -> None:
    world = World()
    key = await world.open(dataRetention="Delete")
    assert finalizers(world, key) == [names.FINALIZER]

    changed = office("general", dataRetention="Retain")
    changed["metadata"]["finalizers"] = [names.FINALIZER]
    world.store.put(OFFICE, changed)
    await world.settle()

    assert finalizers(world, key) == []


async def test_pods_end_then_the_data_goes_then_the_object() -> None:
    world = World()
    key = await world.open(dataRetention="Delete")
    delete(world, key)
    await world.settle()
    assert ("delete", "pods", f"a-{key}") in world.store.writes
    assert world.store.peek(POD, f"c-{key}") is None

    world.store.vanish(POD, f"a-{key}")
    await world.settle()
    assert world.store.peek(POD, f"c-{key}") is None
    world.store.vanish(POD, f"s-{key}")
    await world.settle()
    cleaner = world.store.peek(POD, f"c-{key}")
    assert cleaner is not None
    assert cleaner["spec"]["containers"][0]["command"][-2:] == [f"/data/offices/{key}", f"/data/records/{key}"]
    assert world.store.peek(OFFICE, key) is not None

    world.store.set_status(POD, f"c-{key}", phase="Succeeded")
    await world.settle()
    assert world.store.peek(OFFICE, key) is None


async def test_a_clean_up_that_failed_is_tried_again() -> None:
    world = World()
    key = await world.open(dataRetention="Delete", suspend=True)
    delete(world, key)
    await world.settle()
    world.store.set_status(POD, f"c-{key}", phase="Failed")
    await world.settle()
    world.store.vanish(POD, f"c-{key}")

    await world.settle()

    assert world.store.peek(POD, f"c-{key}") is not None


async def test_where_the_namespace_is_going_the_office_goes_without_a_clean_up() -> None:
    world = World()
    key = await world.open(dataRetention="Delete", suspend=True)
    world.store.failures["create", "pods"] = NamespaceTerminating("it is being terminated", 403)

    delete(world, key)
    await world.settle()

    assert world.store.peek(OFFICE, key) is None


async def test_nothing_more_is_written_at_rest() -> None:
    world = World()
    await world.open(dataRetention="Delete")
    world.store.writes.clear()

    await world.pass_time(60)

    assert world.store.writes == []
