"""What the process says of itself."""

import pytest

from mikan_operator.health import Health
from mikan_operator.storage.kinds import OFFICE, POD
from mikan_operator.watches import SELECTORS, Watches

TASKS = [f"watcher for {kind.plural}.{kind.version}@offices" for kind in SELECTORS]


def listed(tasks: list[str]) -> Watches:
    return Watches(lambda: 0.0, tasks=lambda: tasks, listed=True)


def test_a_standby_is_ready_to_take_over() -> None:
    health = Health(listed([]), lambda: "")

    assert health.readiness() == (True, {"role": "standby"})


def test_a_leader_is_ready_when_all_watches_run() -> None:
    health = Health(listed(TASKS), lambda: "", leader=True)

    ready, details = health.readiness()

    assert ready
    assert details["watches"] == dict.fromkeys([kind.plural for kind in SELECTORS], True)


def test_a_watch_that_has_not_started_is_not_ready_and_not_dead() -> None:
    health = Health(listed(TASKS[1:]), lambda: "", leader=True)

    assert health.readiness()[0] is False
    assert health.alive()


def test_a_watch_that_has_ended_needs_a_restart() -> None:
    tasks = list(TASKS)
    health = Health(listed(tasks), lambda: "", leader=True)
    assert health.alive()

    tasks.remove(TASKS[0])

    assert not health.alive()
    assert health.readiness()[1]["watches"] == {kind.plural: kind != OFFICE for kind in SELECTORS}


def test_a_watch_that_ends_while_the_api_server_is_away_needs_no_restart() -> None:
    tasks, away = list(TASKS), [""]
    health = Health(listed(tasks), lambda: "", leader=True, api_fault=lambda: away[0])
    assert health.alive()

    tasks.remove(TASKS[0])
    away[0] = "the API server does not answer"

    assert health.alive()
    away[0] = ""
    assert not health.alive()


def test_a_watch_that_missed_a_change_is_stale_until_it_delivers() -> None:
    watches = listed(TASKS)

    watches.missed(OFFICE)
    assert watches.report()["offices"] is False
    assert not watches.dead
    watches.delivered(OFFICE)

    assert watches.report()["offices"] is True


def test_a_watch_that_misses_changes_twice_in_a_row_is_dead() -> None:
    watches = listed(TASKS)

    watches.missed(POD)
    watches.missed(POD)

    assert watches.dead


def test_before_the_first_listing_a_leader_is_not_ready() -> None:
    health = Health(Watches(lambda: 0.0, tasks=lambda: TASKS), lambda: "", leader=True)

    assert health.readiness()[0] is False


def test_before_the_first_listing_the_reason_is_named() -> None:
    health = Health(
        Watches(lambda: 0.0, tasks=lambda: TASKS, listing_fault="listing pods: no"), lambda: "", leader=True
    )

    assert health.readiness()[1]["listing"] == "listing pods: no"


@pytest.mark.parametrize("leader", [True, False])
def test_an_api_server_that_is_away_is_named_and_is_not_ready(leader: bool) -> None:
    health = Health(listed(TASKS), lambda: "", leader, lambda: "GET …: ClientConnectorError")

    ready, details = health.readiness()

    assert (ready, details["api server"]) == (False, "GET …: ClientConnectorError")
    assert health.alive()


def test_unusable_settings_are_named_and_the_old_ones_serve_on() -> None:
    health = Health(listed(TASKS), lambda: "settings: llm: wrong", leader=True)

    ready, details = health.readiness()

    assert ready
    assert details["inputs"] == "settings: llm: wrong"
