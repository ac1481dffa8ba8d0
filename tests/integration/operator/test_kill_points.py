"""An operator killed at each of its writes: the next one leaves the same objects, and takes nothing of anybody else's.

Real processes on a real API server; every write has its own names, and each of them is killed before and after.
"""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from forked import Mother
from kill_places import OPERATOR
from mikan_api import names
from mikan_api.identity import OfficeKey
from mikan_dev.paths import kubeconfig
from mikan_operator.storage.kinds import OFFICE, POD, ROLE, ROLE_BINDING, SECRET, SERVICE_ACCOUNT, VAULT
from mikan_operator.storage.kubernetes import KubernetesApi, connect, load_configuration
from mikan_operator_testing.cluster import install_crds
from mikan_operator_testing.live import address, conditions, office, secret, vault
from mikan_operator_testing.mortal import MortalWorld, mortal
from supervised import KILLED

FRESH, TAMPERED, TAKEN = (address(name).key for name in ("fresh", "tampered", "taken"))
RUNNING = ("True", "Running")
MORE = [f"operator.pod.create.{side}:{nth}" for side in ("before", "after") for nth in (2, 3)]
"""Between the pods of an office, and between those of two."""


@pytest.fixture(scope="session")
def mother(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mother]:
    """Of operators."""
    mother = Mother("operator_process:main", tmp_path_factory.mktemp("mothers") / "operator")
    yield mother
    mother.stop()


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig()))
    async with connect(await load_configuration()) as api:
        await install_crds(KubernetesApi(api, "default"))
        yield api


async def people_make(world: MortalWorld) -> dict[str, Any]:
    """Three Offices: one of which nothing is there, one whose objects are not as they should be, one whose are taken.

    Returns:
        The object that is somebody else's.
    """
    live = world.live
    await live.make(SECRET, secret(FRESH, {"TOKEN": "one"}))
    await live.make(VAULT, vault(FRESH))
    await live.make(OFFICE, office("fresh", dataRetention="Delete"))
    tampered = await live.make(OFFICE, office("tampered"))
    agent = names.agent_pod(TAMPERED)
    role_ref = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": agent}
    await world.make_child(SERVICE_ACCOUNT, agent, tampered)
    await world.make_child(ROLE, agent, tampered, rules=[])
    await world.make_child(ROLE_BINDING, agent, tampered, roleRef=role_ref, subjects=[])
    await world.make_child(SECRET, names.token_secret(TAMPERED), tampered, stringData={"gateway": "wrong"})
    foreign = await world.make_child(SERVICE_ACCOUNT, names.agent_pod(TAKEN), None)
    await live.make(OFFICE, office("taken"))
    return foreign


async def all_settle(world: MortalWorld) -> None:
    """All is as wished, or said."""
    live = world.live
    await live.office_with(FRESH, "Ready", RUNNING)
    await live.office_with(TAMPERED, "Ready", RUNNING)
    await live.office_with(TAKEN, "Ready", ("False", "NotOwned"))

    async def vault_is_bound() -> bool:
        found = await live.offices.get(VAULT, FRESH)
        bound: list[str] = found.get("status", {}).get("boundOffices", [])
        return bound == [FRESH] and conditions(found)["Ready"] == ("True", "Valid")

    await live.until(vault_is_bound)


async def a_secret_changes(world: MortalWorld) -> None:
    """Its sandbox is touched, so that the change reaches it."""
    changed = await world.live.patch(SECRET, FRESH, {"stringData": {"TOKEN": "two"}})
    version = changed["metadata"]["resourceVersion"]

    async def is_touched() -> bool:
        pod = await world.live.offices.get(POD, names.sandbox_pod(FRESH))
        found: str = pod["metadata"]["annotations"].get(names.ANNOTATION_VAULT_VERSION)
        return found == version

    await world.live.until(is_touched)


async def one_sleeps_and_wakes(world: MortalWorld) -> None:
    live = world.live
    await live.activity(TAMPERED, datetime.now(UTC) - timedelta(hours=2))
    await live.office_with(TAMPERED, "Ready", ("False", "Idle"))
    for pod in (names.agent_pod(TAMPERED), names.sandbox_pod(TAMPERED)):
        await live.gone(POD, pod)
    await live.activity(TAMPERED)
    await live.office_with(TAMPERED, "Ready", RUNNING)


async def one_is_deleted(world: MortalWorld) -> None:
    """With its data, which takes a pod of its own."""
    gone = await world.live.offices.get(OFFICE, FRESH)
    await world.live.remove(OFFICE, FRESH)
    await world.live.gone(OFFICE, FRESH)

    async def nothing_is_left() -> bool:
        return not await world.own_children(gone)

    await world.live.until(nothing_is_left)


async def death(world: MortalWorld) -> None:
    """The operator has been killed, once. A Lease is renewed by the clock, which may come after all else."""

    async def died() -> bool:
        return bool(world.deaths)

    await world.live.until(died)
    assert world.deaths == [KILLED], world.live.log()


async def each_once(world: MortalWorld, key: OfficeKey) -> None:
    """An office has exactly one object of each kind and name that it should."""
    found = await world.own_children(await world.live.offices.get(OFFICE, key))
    agent, sandbox, tokens = names.agent_pod(key), names.sandbox_pod(key), names.token_secret(key)
    expected = [(kind.kind, agent) for kind in (POD, ROLE, ROLE_BINDING, SERVICE_ACCOUNT)]
    assert found == sorted([*expected, (POD.kind, sandbox), (SECRET.kind, tokens)])


@pytest.mark.parametrize("point", [*OPERATOR, *MORE])
async def test_the_next_operator_ends_the_same(api: Any, mother: Mother, tmp_path: Path, point: str) -> None:
    async with mortal(api, mother, tmp_path, kubeconfig(), point) as world:
        foreign = await people_make(world)
        world.operator.start()

        await all_settle(world)
        await each_once(world, FRESH)
        await a_secret_changes(world)
        await one_sleeps_and_wakes(world)
        await each_once(world, TAMPERED)
        await one_is_deleted(world)

        assert await world.live.offices.get(SERVICE_ACCOUNT, names.agent_pod(TAKEN)) == foreign
        await death(world)
