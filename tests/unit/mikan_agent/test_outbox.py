import asyncio

from agent_peers.clock import settle
from mikan_agent.outbox import Outbox
from mikan_api.responder import Respond, RunStarted, ToolStatus
from mikan_api.wire import MAX_FRAME, Operation, build_frame


async def test_operations_are_numbered_from_one_and_told_in_order() -> None:
    outbox, told = Outbox(), list[Operation]()
    outbox.listener = told.append
    await outbox.put("r1", RunStarted())
    await outbox.put("r2", Respond(text="x"))
    assert [(o.number, o.run_id) for o in told] == [(1, "r1"), (2, "r2")]
    assert outbox.pending() == told


async def test_an_acknowledgement_is_cumulative_and_a_repeat_drops_nothing() -> None:
    outbox = Outbox()
    for _ in range(4):
        await outbox.put("r1", RunStarted())
    assert [o.number for o in await outbox.acknowledge(3)] == [1, 2, 3]
    assert await outbox.acknowledge(2) == []
    assert [o.number for o in outbox.pending()] == [4]


async def test_a_producer_waits_while_it_is_full() -> None:
    outbox = Outbox(max_operations=2)
    await outbox.put("r1", RunStarted())
    await outbox.put("r1", RunStarted())
    third = asyncio.create_task(outbox.put("r1", RunStarted()))
    await settle()
    assert not third.done()
    await outbox.acknowledge(1)
    await third
    assert [o.number for o in outbox.pending()] == [2, 3]


async def test_long_texts_fill_it_too() -> None:
    outbox = Outbox(max_characters=10)
    await outbox.put("r1", Respond(text="x" * 11))
    second = asyncio.create_task(outbox.put("r1", RunStarted()))
    await settle()
    assert not second.done()
    await outbox.acknowledge(1)
    await second


async def test_a_producer_that_is_cancelled_while_it_waits_leaves_no_gap() -> None:
    outbox = Outbox(max_operations=1)
    await outbox.put("r1", RunStarted())
    second = asyncio.create_task(outbox.put("r1", RunStarted()))
    await settle()
    second.cancel()
    await asyncio.wait({second})
    await outbox.acknowledge(1)
    await outbox.put("r2", RunStarted())
    assert [(o.number, o.run_id) for o in outbox.pending()] == [(2, "r2")]


async def test_every_operation_fits_into_a_frame() -> None:
    outbox = Outbox()
    await outbox.put("r1", Respond(text="\x00" * 1_000_000))
    await outbox.put("r1", Respond(text="\U0001f600" * 1_000_000))
    await outbox.put("r1", ToolStatus(call_id="c", label="a\x1bb\n"))
    frames = [build_frame(operation).encode() for operation in outbox.pending()]
    assert all(len(frame) < MAX_FRAME for frame in frames)
    assert outbox.pending()[2].operation == ToolStatus(call_id="c", label="a\ufffdb\n")


async def test_emptied_waits_for_the_last_acknowledgement() -> None:
    outbox = Outbox()
    await outbox.put("r1", RunStarted())
    emptied = asyncio.create_task(outbox.emptied())
    await settle()
    assert not emptied.done()
    await outbox.acknowledge(1)
    await emptied
