"""The status of Vaults."""

import json
from typing import Any

from mikan_operator.storage.kinds import OFFICE, SECRET, VAULT
from mikan_operator_testing.live import conditions, office, secret, vault
from mikan_operator_testing.world import World

NAME = "shared-team"


def with_data(name: str, data: dict[str, str], *, labelled: bool = True) -> dict[str, Any]:
    return {**secret(name, {}, labelled=labelled), "data": data}


def status(world: World, name: str = NAME) -> dict[str, Any]:
    found = world.store.peek(VAULT, name)
    assert found is not None
    value: dict[str, Any] = found["status"]
    return value


async def test_a_status_names_variables_and_files_and_never_a_value() -> None:
    world = World()
    world.store.put(SECRET, with_data(NAME, {"TOKEN": "c2VjcmV0", "gws.json": "c2VjcmV0", "OTHER": "c2VjcmV0"}))
    world.store.put(VAULT, vault(NAME, "shared", env=["TOKEN"]))

    await world.settle()

    found = status(world)
    assert found["variables"] == ["TOKEN"]
    assert found["files"] == ["~/.config/gws/credentials.json"]
    assert "c2VjcmV0" not in json.dumps(world.store._objects["vaults", NAME])
    assert conditions(world.store.peek(VAULT, NAME) or {}) == {
        "Ready": ("True", "Valid"),
        "SecretFound": ("True", "Found"),
        "MountsValid": ("True", "Valid"),
    }


async def test_a_missing_secret_is_said_once() -> None:
    world = World()
    world.store.put(VAULT, vault(NAME, "shared"))

    await world.settle()
    await world.pass_time(60)

    assert conditions(world.store.peek(VAULT, NAME) or {})["SecretFound"] == ("False", "SecretMissing")
    assert world.events() == [(NAME, "SecretMissing")]


async def test_a_secret_without_the_label_is_not_used() -> None:
    world = World()
    world.store.put(SECRET, with_data(NAME, {"TOKEN": "dg=="}, labelled=False))
    world.store.put(VAULT, vault(NAME, "shared"))

    await world.settle()

    assert conditions(world.store.peek(VAULT, NAME) or {})["SecretFound"] == ("False", "SecretNotLabelled")
    assert status(world).get("variables", []) == []


async def test_labelling_the_secret_cures_it() -> None:
    world = World()
    world.store.put(SECRET, with_data(NAME, {"TOKEN": "dg=="}, labelled=False))
    world.store.put(VAULT, vault(NAME, "shared"))
    await world.settle()

    world.store.put(SECRET, with_data(NAME, {"TOKEN": "dg=="}))
    await world.settle()

    assert conditions(world.store.peek(VAULT, NAME) or {})["Ready"] == ("True", "Valid")


async def test_a_collision_is_said_with_both_keys() -> None:
    world = World()
    files = [{"key": "a", "path": "~/x"}, {"key": "b", "path": "x"}]
    world.store.put(SECRET, with_data(NAME, {"a": "dg==", "b": "dg=="}))
    world.store.put(VAULT, vault(NAME, "shared", files=files))

    await world.settle()

    assert conditions(world.store.peek(VAULT, NAME) or {})["MountsValid"] == ("False", "MountCollision")
    assert world.events() == [(NAME, "MountCollision")]


async def test_bound_offices_follow_the_offices() -> None:
    world = World()
    world.store.put(SECRET, with_data(NAME, {"TOKEN": "dg=="}))
    keys = sorted(office(name)["metadata"]["name"] for name in ("one", "two"))
    world.store.put(VAULT, vault(NAME, "shared", allowedOffices=keys))
    for name in ("one", "two"):
        world.store.put(OFFICE, office(name, vaultName=NAME))
    world.store.put(OFFICE, office("three", vaultName=NAME))
    await world.settle()
    assert status(world)["boundOffices"] == keys

    world.store.vanish(OFFICE, keys[0])
    await world.settle()

    assert status(world)["boundOffices"] == [keys[1]]


async def test_nothing_is_written_at_rest() -> None:
    world = World()
    world.store.put(SECRET, with_data(NAME, {"TOKEN": "dg=="}))
    world.store.put(VAULT, vault(NAME, "shared"))
    await world.settle()
    world.store.writes.clear()

    await world.pass_time(600)

    assert world.store.writes == []
