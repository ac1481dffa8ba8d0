"""Answers of the gateway's own: durable when asked for, shown once, in order, and waited for by nobody."""

import pytest
from sqlalchemy import Connection

from gateway_doubles import inbound, key_of
from gateway_world import World
from mikan_api.responder import Respond
from mikan_api.session_keys import SessionKey
from mikan_api.wire import Stop
from mikan_gateway.exceptions import PlatformUnavailable, StorageError, StorageUnavailable
from mikan_gateway.ports import InboundMessage, OwnAnswer, StopOutcome
from mikan_gateway.runtime import answers
from mikan_gateway.storage.operations import outputs

S1 = SessionKey("C1")


def shown(world: World) -> list[str]:
    return [one.text for one in world.output.operations if isinstance(one, Respond)]


def said(message: InboundMessage) -> OwnAnswer:
    return OwnAnswer(message, f"answer to {message.event.message.id}")


async def test_an_answer_is_shown_once_however_often_its_message_comes(world: World) -> None:
    message = inbound()
    assert await world.runtime.answered(message) is False

    for _ in range(3):
        await world.runtime.answer(said(message))
    await world.output.until(2)
    world.clock.advance(1)
    await world.restart()
    await world.runtime.answer(said(message))
    await world.settle()

    assert await world.runtime.answered(message) is True
    assert shown(world) == ["answer to m1"]
    assert await world.database.read(outputs) == []


async def test_answers_of_a_conversation_keep_their_order_and_hold_up_no_other(world: World) -> None:
    world.output.failures = [PlatformUnavailable("flooded")]
    for message in (inbound(message_id="m1"), inbound(message_id="m2"), inbound("C2", "m3")):
        await world.runtime.answer(said(message))
        await world.settle()
    assert shown(world) == ["answer to m3"]

    world.clock.advance(0.5)
    await world.output.until(6)

    assert shown(world) == ["answer to m3", "answer to m1", "answer to m2"]


async def test_answers_that_were_not_shown_before_a_crash_are_shown_in_order_after_it(world: World) -> None:
    world.output.gate.clear()
    for message_id in ("m1", "m2", "m3"):
        await world.runtime.answer(said(inbound(message_id=message_id)))
    await world.stop()
    world.output.gate.set()

    await world.start()
    await world.output.until(6)

    assert shown(world) == ["answer to m1", "answer to m2", "answer to m3"]


async def test_messages_that_only_share_an_id_have_answers_of_their_own(world: World) -> None:
    for message in (inbound(), inbound(app="a"), inbound(app="a", team="t"), inbound("C2")):
        await world.runtime.answer(said(message))

    await world.output.until(8)
    assert len(shown(world)) == 4


async def test_a_stop_and_its_answer_are_one_commit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.office()
    running, message = await world.ask("m1"), inbound(message_id="m2", text="stop")
    link = await world.connect()
    world.take(link)
    await world.begin(link, running)

    def refused(connection: Connection, *_: object) -> None:
        raise StorageUnavailable("no database")

    with monkeypatch.context() as patch:
        patch.setattr(answers, "store_answer", refused)
        with pytest.raises(StorageError):
            await world.runtime.stop(key_of(), S1, True, lambda outcome: said(message))
    assert link.frames == []

    await world.runtime.stop(key_of(), S1, True, lambda outcome: OwnAnswer(message, describe(outcome)))

    assert link.frames == [Stop(run_id=running)]
    await world.output.until_seen(await answer_id(world), "run_finished")
    assert shown(world) == [f"stopped {running}"]


async def test_a_stop_of_what_nobody_has_yet_and_its_answer_are_one_commit(world: World) -> None:
    world.office()
    waiting, message = await world.ask("m1"), inbound(message_id="m2", text="stop")
    world.output.gate.clear()
    await world.runtime.stop(key_of(), S1, True, lambda outcome: OwnAnswer(message, describe(outcome)))
    await world.stop()
    world.output.gate.set()
    await world.start()

    await world.output.until(3)

    assert shown(world) == [f"stopped {waiting}"]
    assert world.output.of(waiting) == ["run_finished"]


def describe(outcome: StopOutcome) -> str:
    return f"stopped {', '.join(record.run_id for record in outcome.stopped)}"


async def answer_id(world: World) -> str:
    return next(run_id for run_id, what in await world.output.until(2) if what == "respond")
