"""Intake order: admission, magic word, trigger policy, attachments, log, busy policy, queue, dispatch."""

import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway_doubles import FakeOffices, ManualClock, inbound, key_of
from gateway_edges import (
    DirectorySpool,
    FakeEditor,
    FakeQueue,
    FixedSettings,
    NotedAttachments,
)
from mikan_api.identity import Platform
from mikan_api.messaging import Attachment, Author, ConversationKind
from mikan_api.session_keys import SessionKey
from mikan_api.settings import Admission, Settings
from mikan_gateway.admission import Gatekeeper
from mikan_gateway.exceptions import OfficeConflict, StorageUnavailable
from mikan_gateway.intake import NO_OFFICE, TURNED_AWAY, MessageIntake
from mikan_gateway.ports import InboundMessage, RunRecord, StopOutcome

BROKEN = Attachment(id="x", name="1_0_a.txt", original_name="a.txt", error="larger than 5 bytes")


class NotingOffices(FakeOffices):
    """Notes when an office is made sure of."""

    def __init__(self, order: list[str]) -> None:
        super().__init__()
        self._order = order

    async def ensure(self, *args: Any) -> Any:
        self._order.append("office")
        return await super().ensure(*args)


class Door:
    """An intake with everything around it played; `order` has what was done, in order."""

    def __init__(self, tmp_path: Path, settings: Settings | None = None) -> None:
        self.order: list[str] = []
        self.queue = FakeQueue(self.order)
        self.offices = NotingOffices(self.order)
        self.editor = FakeEditor()
        self.settings = FixedSettings(settings)
        self.clock = ManualClock()
        self.gatekeeper = Gatekeeper(self.settings, self.clock.monotonic)
        self.intake = MessageIntake(
            self.offices,
            self.editor,
            self.queue,
            DirectorySpool(tmp_path),
            self.settings,
            self.gatekeeper,
        )

    def message(self, text: str = "hello", *, message_id: str = "m1", **changes: Any) -> InboundMessage:
        """A message with one attachment; ``shared``, ``bot``, ``triggered``, ``user`` change it."""
        message = inbound(message_id=message_id, text=text)
        author = Author(id=changes.get("user", "U1"), user_name="ann", is_bot=changes.get("bot", False))
        native = message.event.message.model_copy(update={"author": author, "time": datetime(2026, 1, 2, tzinfo=UTC)})
        kind = ConversationKind.SHARED if changes.get("shared") else ConversationKind.DIRECT
        event = message.event.model_copy(update={"message": native, "conversation_kind": kind})
        return dataclasses.replace(
            message,
            event=event,
            triggered=changes.get("triggered", not changes.get("shared")),
            attachments=NotedAttachments(self.order, (BROKEN,)),
        )

    @property
    def answers(self) -> list[str]:
        return [answer.text for answer in self.queue.answers]


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


async def test_a_message_to_us_goes_through_every_step_in_order(door: Door) -> None:
    assert await door.intake.receive(door.message()) == 1

    assert door.order == ["office", "attachments", "queue"]
    message, run = door.queue.submitted[0]
    assert run is True
    assert message.event.message.attachments == (BROKEN,)


@pytest.mark.parametrize("text", ["stop", "/stop", " STOP ", "/Stop\n"])
@pytest.mark.parametrize("shared", [True, False])
async def test_the_magic_word_skips_trigger_policy_attachments_and_queue(door: Door, text: str, shared: bool) -> None:
    await door.intake.receive(door.message(text, shared=shared))

    assert door.order == ["log", "stop"]
    assert door.queue.stops == [(key_of(), SessionKey("C1"), True)]
    assert door.answers == ["Nothing is running here."]


async def test_more_than_the_magic_word_is_no_magic_word(door: Door) -> None:
    await door.intake.receive(door.message("stop it"))

    assert door.order == ["office", "attachments", "queue"]


async def test_stop_says_what_it_stopped(door: Door) -> None:
    door.queue.outcome = StopOutcome(stopped=[_run("count to ten")])
    await door.intake.receive(door.message("stop"))

    assert door.answers == ["Stopped."]
    assert [answer.logged for answer in door.queue.answers] == [True]


async def test_stop_lists_what_it_might_have_meant(door: Door) -> None:
    door.queue.outcome = StopOutcome(candidates=[_run("count to ten"), _run("y" * 100)])
    await door.intake.receive(door.message("stop"))

    assert door.answers[0].splitlines()[1:] == ["- “count to ten” (ann)", f"- “{'y' * 80}…” (ann)"]


async def test_a_stop_that_comes_twice_stops_once(door: Door) -> None:
    await door.intake.receive(door.message("stop"))
    await door.intake.receive(door.message("stop"))

    assert len(door.queue.stops) == 1
    assert door.answers == ["Nothing is running here."]


async def test_an_untriggered_message_is_logged_and_nothing_else(door: Door) -> None:
    assert await door.intake.receive(door.message(shared=True)) == 1

    assert door.order == ["log"]
    assert door.answers == []


async def test_a_mention_in_a_shared_conversation_triggers(door: Door) -> None:
    await door.intake.receive(door.message(shared=True, triggered=True))

    assert door.order == ["office", "attachments", "queue"]


async def test_auto_reply_triggers_without_a_mention(door: Door) -> None:
    view = door.offices.add(inbound().event.address)
    door.offices.change(view.key, auto_reply=True)
    await door.intake.receive(door.message(shared=True))

    assert door.order == ["office", "attachments", "queue"]


@pytest.mark.parametrize("text", ["hello", "stop", "/new"])
async def test_a_bot_triggers_nothing(door: Door, text: str) -> None:
    await door.intake.receive(door.message(text, bot=True, triggered=True))

    assert door.order == ["log"]
    assert door.answers == []


async def test_a_command_is_logged_and_carried_out_before_the_queue(door: Door) -> None:
    await door.intake.receive(door.message("/new"))

    assert door.order == ["office", "attachments", "log", "reset", "answer"]
    assert door.answers == ["A fresh session starts with your next message. The old one is kept."]


async def test_a_command_that_comes_twice_is_carried_out_once(door: Door) -> None:
    await door.intake.receive(door.message("/new"))
    await door.intake.receive(door.message("/new"))

    assert door.queue.resets == [(key_of(), SessionKey("C1"))]
    assert len(door.answers) == 1


async def test_an_unknown_slash_text_is_for_the_model(door: Door) -> None:
    await door.intake.receive(door.message("/frobnicate now"))

    assert door.order == ["office", "attachments", "queue"]


async def test_an_untriggered_command_is_only_logged(door: Door) -> None:
    await door.intake.receive(door.message("/new", shared=True))

    assert door.order == ["log"]


async def test_a_message_is_queued_though_its_office_cannot_be_made_yet(door: Door) -> None:
    """The platform goes on delivering what other conversations say; the queue has the office made."""
    door.offices.unreachable = True

    assert await door.intake.receive(door.message()) == 1
    assert door.order == ["office", "attachments", "queue"]


async def test_a_command_is_answered_though_its_office_cannot_be_made_yet(door: Door) -> None:
    door.offices.unreachable = True

    assert await door.intake.receive(door.message("/new")) == 1
    assert door.order == ["office", "attachments", "log", "answer"]
    assert door.answers == [NO_OFFICE]


async def test_an_office_of_another_identity_is_an_error(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ensure(*_: Any) -> Any:
        raise OfficeConflict("taken")

    monkeypatch.setattr(door.offices, "ensure", ensure)

    with pytest.raises(OfficeConflict):
        await door.intake.receive(door.message())
    assert door.queue.submitted == []


async def test_admission_comes_before_the_magic_word(tmp_path: Path) -> None:
    door = Door(tmp_path, Settings(admission={Platform.CONSOLE: Admission(users=("U1",))}))

    assert await door.intake.receive(door.message("stop", user="U9")) is None
    assert door.order == ["answer"]
    assert [(answer.text, answer.logged) for answer in door.queue.answers] == [(TURNED_AWAY, False)]


async def test_a_stranger_is_answered_once_and_again_only_if_that_could_not_be_stored(tmp_path: Path) -> None:
    door = Door(tmp_path, Settings())
    door.settings.current = Settings(admission={Platform.CONSOLE: Admission()})
    door.queue.failures.append(StorageUnavailable("no database"))

    with pytest.raises(StorageUnavailable):
        await door.intake.receive(door.message())
    for message_id in ("m1", "m2"):
        assert await door.intake.receive(door.message(message_id=message_id)) is None

    assert door.answers == [TURNED_AWAY]


async def test_an_office_that_cannot_be_made_yet_counts_once_toward_the_rate(tmp_path: Path) -> None:
    door = Door(tmp_path, Settings(admission={Platform.CONSOLE: Admission(open=True, offices_per_hour=1)}))
    door.offices.unreachable = True

    assert [await door.intake.receive(door.message(message_id=f"m{n}")) for n in (1, 2, 3)] == [1, 2, 3]
    assert door.answers == []


def _run(text: str) -> RunRecord:
    message = inbound(text=text)
    return RunRecord("run-1", key_of(), SessionKey("C1"), message.event, message.info)
