"""Who may create or use an office (architecture section 5)."""

import dataclasses

import pytest

from gateway_doubles import ManualClock, inbound, key_of
from gateway_edges import FixedSettings
from mikan_api.identity import Platform
from mikan_api.messaging import Author
from mikan_api.settings import Admission, Settings
from mikan_gateway.admission import HOUR, Gatekeeper
from mikan_gateway.ports import InboundMessage


def message(user: str = "U1", conversation: str = "C1", team: str = "") -> InboundMessage:
    found = inbound(conversation)
    native = found.event.message.model_copy(update={"author": Author(id=user)})
    return dataclasses.replace(found, event=found.event.model_copy(update={"message": native}), team=team)


def gatekeeper(admission: Admission | None, **settings: object) -> tuple[Gatekeeper, ManualClock]:
    clock = ManualClock()
    lists = {Platform.CONSOLE: admission} if admission else {}
    return Gatekeeper(FixedSettings(Settings(admission=lists, **settings)), clock.monotonic), clock  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("admission", "admitted"),
    [
        (None, False),
        (Admission(), False),
        (Admission(open=True), True),
        (Admission(users=("U1",)), True),
        (Admission(users=("U2",)), False),
        (Admission(conversations=("C1",)), True),
        (Admission(teams=("T1",)), True),
        (Admission(guilds=("T1",)), True),
        (Admission(teams=("T2",), users=("U2",)), False),
    ],
)
def test_any_list_that_names_sender_or_place_admits(admission: Admission | None, admitted: bool) -> None:
    assert gatekeeper(admission)[0].admits(message(team="T1")) is admitted


def test_a_message_without_a_team_is_in_no_team() -> None:
    assert gatekeeper(Admission(teams=("T1",)))[0].admits(message()) is False


def test_an_admin_is_admitted_without_a_list() -> None:
    keeper, _ = gatekeeper(None, admins={Platform.CONSOLE: ("U1",)})

    assert keeper.admits(message("U1")) is True
    assert keeper.admits(message("U2")) is False


def test_by_default_only_the_console_is_open() -> None:
    keeper = Gatekeeper(FixedSettings())
    slack = message()
    elsewhere = dataclasses.replace(slack, event=slack.event.model_copy(update={"platform": Platform.TELEGRAM}))

    assert keeper.admits(message()) is True
    assert keeper.admits(elsewhere) is False


def test_a_stranger_gets_one_answer() -> None:
    keeper, _ = gatekeeper(None)

    assert [keeper.first_refusal(Platform.CONSOLE, user, "no") for user in ("U1", "U1", "U2")] == [True, False, True]


def test_new_offices_are_limited_by_the_hour() -> None:
    keeper, clock = gatekeeper(Admission(open=True, offices_per_hour=2))

    def may_create(conversation: str) -> bool:
        return keeper.may_create(Platform.CONSOLE, key_of(conversation))

    assert [may_create(one) for one in ("C1", "C2", "C2", "C3")] == [True, True, True, False]
    clock.advance(HOUR - 1)
    assert may_create("C3") is False
    clock.advance(1)
    assert may_create("C3") is True
