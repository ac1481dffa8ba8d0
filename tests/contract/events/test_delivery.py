"""From the operator's request to one answer in the conversation: once for each delivery, whatever is cut in between."""

import asyncio

import pytest
from sqlalchemy import select

from event_world import EventGateway, firing, key_of
from gateway_doubles import WireAgent
from mikan_api.firings import FiringBatch, FiringOutcome
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.responder import DeleteResponse, Respond, RunFinished, RunOutcome, RunStarted
from mikan_api.tokens import sign_request
from mikan_api.wire import LogBatch, Run, RunRequest
from mikan_gateway.events.firings import ANCHOR
from mikan_gateway.exceptions import PlatformRefused, PlatformUnavailable
from mikan_gateway.storage.tables import runs

QUEUED, REPEATED = FiringOutcome.QUEUED, FiringOutcome.REPEATED


async def given(agent: WireAgent) -> RunRequest:
    """The next run that the agent is given."""
    delivered = await agent.until(Run)
    request: RunRequest = delivered.run
    return request


async def until_over(gateway: EventGateway) -> list[tuple[str, str]]:
    """Wait until every run that is stored is over; state and outcome of each."""
    query = select(runs.c.state, runs.c.outcome)
    async with asyncio.timeout(10):
        while True:
            rows = await gateway.database.read(lambda connection: connection.execute(query).all())
            if all(row.state == "finished" for row in rows):
                return [(row.state, row.outcome) for row in rows]
            await asyncio.sleep(0.01)


async def outcomes(gateway: EventGateway, *uids: str) -> list[FiringOutcome]:
    return [result.outcome for result in await gateway.fire(*(firing(uid) for uid in uids))]


async def test_a_firing_becomes_a_run_in_a_session_named_by_its_message(gateway: EventGateway) -> None:
    assert await outcomes(gateway, "uid-1") == [QUEUED]
    async with gateway.agent() as agent:
        await agent.hello()
        run = await given(agent)
        assert run.kind == "scheduled"
        assert run.session_key == "C1:m1"
        assert (run.event.message.id, run.event.message.text) == ("m1", "Look around")
        assert run.event.message.author.is_bot
        assert (run.info.display_name, run.info.platform) == ("General", Platform.CONSOLE)
        assert run.log_number == 0
        assert gateway.platform.shown() == [ANCHOR]
        await agent.report(run.run_id, RunStarted())
        await agent.report(run.run_id, Respond(text="All is well."))
        await agent.acknowledged(await agent.report(run.run_id, RunFinished(outcome=RunOutcome.COMPLETED)))
        await gateway.platform.until("working", False)
        assert gateway.platform.shown() == ["All is well."]
        logged = await agent.until(LogBatch)
        [entry] = logged.entries
        assert (entry.from_bot, entry.message.id, entry.message.text) == (True, "m1", "All is well.")
        assert entry.message.session_key == "C1:m1"


async def test_a_silent_run_leaves_nothing(gateway: EventGateway) -> None:
    await gateway.fire(firing())
    async with gateway.agent() as agent:
        await agent.hello()
        run = await given(agent)
        await agent.report(run.run_id, RunStarted())
        await agent.report(run.run_id, DeleteResponse())
        await agent.acknowledged(await agent.report(run.run_id, RunFinished(outcome=RunOutcome.COMPLETED)))
        await gateway.platform.until("working", False)
    assert gateway.platform.shown() == []
    assert await gateway.runtime.desk.log_after(key_of(), 0) == ()


@pytest.mark.parametrize("text", ["stop", "/new", "/model scripted/demo", "/admin"])
async def test_a_text_that_looks_like_a_command_is_a_prompt(gateway: EventGateway, text: str) -> None:
    await gateway.fire(firing(text=text))
    async with gateway.agent() as agent:
        await agent.hello()
        assert (await given(agent)).event.message.text == text


async def test_a_delivery_that_comes_again_is_no_second_run(gateway: EventGateway) -> None:
    assert await outcomes(gateway, "uid-1") == [QUEUED]
    assert await outcomes(gateway, "uid-1", "uid-1", "uid-2", "uid-2") == [REPEATED, REPEATED, QUEUED, REPEATED]
    async with gateway.agent() as agent:
        await agent.hello()
        for run in [await given(agent), await given(agent)]:
            await agent.report(run.run_id, RunStarted())
            await agent.report(run.run_id, Respond(text=run.session_key))
            await agent.acknowledged(await agent.report(run.run_id, RunFinished(outcome=RunOutcome.COMPLETED)))
    await gateway.restart()
    assert await outcomes(gateway, "uid-1", "uid-2") == [REPEATED, REPEATED]
    assert sorted(gateway.platform.shown()) == ["C1:m1", "C1:m2"]


async def test_a_firing_survives_a_restart_before_its_message_stands(gateway: EventGateway) -> None:
    gateway.platform.failures += [PlatformUnavailable("flood", retry_after=3600.0)]
    assert await outcomes(gateway, "uid-1") == [QUEUED]
    await asyncio.sleep(0)
    await gateway.restart()
    await gateway.platform.until("post", "m1", ANCHOR)
    async with gateway.agent() as agent:
        await agent.hello()
        assert (await given(agent)).session_key == "C1:m1"


async def test_a_firing_whose_message_is_refused_for_good_ends(gateway: EventGateway) -> None:
    gateway.platform.failures += [PlatformRefused("the bot was removed")]
    assert await outcomes(gateway, "uid-1") == [QUEUED]
    assert await until_over(gateway) == [("finished", "failed")]
    assert gateway.runtime.busy(key_of()) == 0


async def test_at_most_five_events_of_an_office_wait(gateway: EventGateway) -> None:
    gateway.office("C2")
    assert await outcomes(gateway, *(f"uid-{n}" for n in range(4))) == [QUEUED] * 4
    results = await gateway.fire(firing("uid-4"), firing("uid-5"), firing("uid-6", "C2"))
    assert [result.outcome for result in results] == [QUEUED, FiringOutcome.QUEUE_FULL, QUEUED]
    assert results[1].message == "5 events of this office wait already"
    async with gateway.agent() as agent:
        await agent.hello()
        run = await given(agent)
        await agent.acknowledged(await agent.report(run.run_id, RunStarted()))
        # One has begun, so there is room for one more, and a refused delivery may come again.
        assert await outcomes(gateway, "uid-5", "uid-7") == [QUEUED, FiringOutcome.QUEUE_FULL]


async def test_what_cannot_be_delivered_is_refused_with_the_reason(gateway: EventGateway) -> None:
    gateway.office("C2")
    gateway.offices.change(key_of("C2"), suspended=True)
    results = await gateway.fire(
        firing("uid-1", "nobody"),
        firing("uid-2", "C2"),
        firing("uid-3", platform=Platform.SLACK),
        firing("uid-4", ".."),
    )
    unknown = OfficeAddress(Platform.CONSOLE, "nobody").key
    assert [(result.outcome, result.message) for result in results] == [
        (FiringOutcome.OFFICE_NOT_FOUND, f"there is no office {unknown}"),
        (FiringOutcome.OFFICE_SUSPENDED, f"the office {key_of('C2')} is suspended"),
        (FiringOutcome.PLATFORM_NOT_CONNECTED, "the platform slack is not connected to this installation"),
        (FiringOutcome.OFFICE_NOT_FOUND, "conversation id '..' is empty or a dot name"),
    ]
    assert gateway.platform.shown() == []


async def test_an_office_that_was_suspended_after_the_delivery_knows_it_still(gateway: EventGateway) -> None:
    await gateway.fire(firing())
    gateway.offices.change(key_of(), suspended=True)
    assert await outcomes(gateway, "uid-1") == [REPEATED]


async def test_offices_that_are_not_known_yet_refuse_nothing(gateway: EventGateway) -> None:
    gateway.offices.synced = False
    body = FiringBatch(firings=(firing("uid-1", "C9"),)).model_dump_json(by_alias=True).encode()
    assert (await gateway.post(body)).status_code == 503


async def test_a_sleeping_office_is_woken(gateway: EventGateway) -> None:
    await gateway.fire(firing())
    async with asyncio.timeout(10):
        while not gateway.offices.touched:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)
    assert set(gateway.offices.touched) == {(key_of(), 1)}


@pytest.mark.parametrize(
    ("body", "authorization", "status"),
    [
        (b'{"firings": []}', None, 400),
        (b"no json", None, 400),
        (b'{"firings": []}', "Bearer nothing", 401),
        (b'{"firings": []}', f"Bearer {sign_request(b'f' * 32, b'')}", 401),
        (b'{"firings": []}', f"Bearer {sign_request(b'k' * 32, b'another body')}", 401),
    ],
)
async def test_only_what_the_operator_signed_is_taken(
    gateway: EventGateway, body: bytes, authorization: str | None, status: int
) -> None:
    response = await gateway.post(body, authorization)
    assert response.status_code == status
    assert "error" in response.json()
