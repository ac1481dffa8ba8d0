"""What comes to a conversation without a message, for worlds in which processes are killed.

A firing as the operator delivers it, an event that the model sets up, and a notice.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from durability_world import DurableWorld
from gateway_doubles import KEY
from mikan_api.firings import PATH, Firing, FiringAnswer, FiringBatch, FiringOutcome, delivery_id
from mikan_api.messaging import ConversationKind
from mikan_api.tokens import OfficeClaims, issue_token, sign_request
from mikan_api.wire import Hello, Reply, Request, build_frame, parse_gateway_frame

Replies = Mapping[str, Sequence[Sequence[str]]]
ALONE = ""
"""Stands for the message that what stands by itself is below (`ConsoleChat.replies`)."""
AGAIN = 0.05
PATIENCE = 25.0


async def fire(world: DurableWorld) -> Replies:
    """A conversation, and then an event that is due in it."""
    await world.chat.say("m1", "hello")
    await world.wake()
    await world.chat.answered("m1", "You said: hello")
    due = Firing(
        delivery_id=delivery_id("uid-1", datetime(2026, 3, 1, tzinfo=UTC)),
        name="daily",
        platform=world.address.platform,
        conversation_id=world.address.conversation_id,
        conversation_kind=ConversationKind.DIRECT,
        text="tick",
        scheduled_time=datetime(2026, 3, 1, tzinfo=UTC),
    )
    assert await _deliver(world, due) in {FiringOutcome.QUEUED, FiringOutcome.REPEATED}
    await world.chat.answered(ALONE, "You said: tick")
    return {"m1": [["You said: hello"]], ALONE: [["You said: tick"]]}


async def remind(world: DurableWorld) -> Replies:
    """The model sets an event up, which is far away."""
    await world.chat.say("m1", "remind me")
    await world.wake()
    await world.chat.answered("m1", "done")
    return {"m1": [["done"]]}


async def notify(world: DurableWorld) -> Replies:
    """An agent of another process posts a notice, and asks until it hears that it is posted."""
    await world.chat.say("m1", "hello")
    uid = await world._office_uid()
    await _ask(world, uid, Request(id="r1", method="notify", params={"text": "Look!"}))
    await world.wake()
    await world.chat.answered("m1", "You said: hello")
    return {"m1": [["You said: hello"]], ALONE: [["Look!"]]}


async def _deliver(world: DurableWorld, due: Firing) -> FiringOutcome:
    body = FiringBatch(firings=(due,)).model_dump_json(by_alias=True).encode()
    headers = {"Authorization": f"Bearer {sign_request(KEY, body)}"}
    async with asyncio.timeout(PATIENCE), httpx.AsyncClient(trust_env=False) as client:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                response = await client.post(f"http://127.0.0.1:{world.port}{PATH}", content=body, headers=headers)
                if response.status_code == 200:
                    return FiringAnswer.model_validate_json(response.content).results[0].outcome
            await asyncio.sleep(AGAIN)


async def _ask(world: DurableWorld, uid: str, request: Request) -> None:
    url = f"ws://127.0.0.1:{world.port}/agent/v1/offices/{world.address.key}"
    token = issue_token(KEY, "gateway", OfficeClaims(world.address.key, uid, 0))
    headers = {"Authorization": f"Bearer {token}"}
    hello = Hello(pod_name="a-x", pod_uid="a-uid", incarnation="asking")
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(OSError, ConnectionClosed, InvalidHandshake):
                async with connect(url, additional_headers=headers, proxy=None, close_timeout=1) as socket:
                    await socket.send(build_frame(hello))
                    await socket.send(build_frame(request))
                    while True:
                        frame = parse_gateway_frame(await socket.recv())
                        if isinstance(frame, Reply):
                            assert frame.error is None
                            return
            await asyncio.sleep(AGAIN)
