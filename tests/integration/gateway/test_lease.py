import asyncio
import secrets

from kubernetes.aio.client import ApiClient

from mikan_cluster.commands import Kubectl
from mikan_gateway import lease as module
from mikan_gateway.lease import LeaseHolder
from mikan_gateway.runtime.clock import SystemClock


def holder(api: ApiClient, namespace: str, name: str, identity: str) -> LeaseHolder:
    return LeaseHolder(api, namespace, name, identity, SystemClock())


async def test_one_holds_it_and_another_takes_over_when_it_is_released(
    api: ApiClient, namespace: str, kubectl: Kubectl
) -> None:
    name = f"lease-{secrets.token_hex(4)}"
    first, second = holder(api, namespace, name, "first"), holder(api, namespace, name, "second")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    done, _ = await asyncio.wait({waiting}, timeout=module.RETRY * 1.5)
    assert (done, first.health().ok, second.health().ok) == (set(), True, False)

    await first.release()
    await asyncio.wait_for(waiting, 10)
    found = await asyncio.to_thread(kubectl.get, "lease", name, "-n", namespace)
    assert (found["spec"]["holderIdentity"], found["spec"]["leaseTransitions"]) == ("second", 1)


async def test_of_two_at_once_one_gets_it(api: ApiClient, namespace: str) -> None:
    name = f"lease-{secrets.token_hex(4)}"
    holders = [holder(api, namespace, name, identity) for identity in ("a", "b", "c", "d")]
    tasks = {asyncio.create_task(one.acquire()) for one in holders}
    done, waiting = await asyncio.wait(tasks, timeout=1.5)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert len(done) == 1


async def test_a_holder_that_can_no_longer_renew_is_told(api: ApiClient, namespace: str, kubectl: Kubectl) -> None:
    name = f"lease-{secrets.token_hex(4)}"
    first = holder(api, namespace, name, "first")
    await first.acquire()
    # Somebody else holds it now, as after a partition.
    await asyncio.to_thread(
        kubectl, "patch", "lease", name, "-n", namespace, "--type=merge", "-p", '{"spec":{"holderIdentity":"other"}}'
    )
    lost = asyncio.Event()
    first.keep(lost.set)

    await asyncio.wait_for(lost.wait(), 2 * module.RETRY)
    await first.release()
    found = await asyncio.to_thread(kubectl.get, "lease", name, "-n", namespace)
    assert found["spec"]["holderIdentity"] == "other"
