"""Waiting for what the log is about to hold."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from agent_peers.clock import VirtualClock
from agent_peers.office import ADDRESS, entry
from mikan_agent.attachments import Attachments
from mikan_agent.confined import ConfinedDirectory
from mikan_agent.logbook import POST_WAIT, Logbook
from mikan_agent.records.log import PlatformLog
from mikan_agent.transfers import Transfers
from mikan_api.messaging import LogEntry
from mikan_api.session_keys import SessionKey
from mikan_api.wire import LogBatch

ROOM, OTHER = SessionKey("room"), SessionKey("other")


class Scene:
    """A log that is being written."""

    def __init__(self, root: Path) -> None:
        self.clock = VirtualClock()
        self.log = PlatformLog(ConfinedDirectory(root), ADDRESS.key)
        attachments = Attachments(ConfinedDirectory(root), cast(Transfers, None), self.clock)
        self.logbook = Logbook(self.log, attachments, self.clock, written=lambda _: None, gap=lambda _: None)

    async def post(self, number: int, session: SessionKey) -> None:
        message = entry("an answer", number).message.model_copy(update={"session_key": session})
        await self.logbook.add(LogBatch(entries=(LogEntry(number=number, message=message, from_bot=True),)))


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path)
    await scene.log.open()
    return scene


async def test_a_post_is_waited_for_until_it_is_on_disk(scene: Scene) -> None:
    writing = asyncio.create_task(scene.logbook.run())
    waiting = asyncio.create_task(scene.logbook.posted(ROOM, 1))
    await scene.post(1, ROOM)
    await scene.post(2, OTHER)
    await scene.logbook.reached(2)
    assert not waiting.done()
    await scene.post(3, ROOM)
    await waiting
    assert scene.log.last_number == 3
    await scene.logbook.posted(ROOM, 2)
    writing.cancel()
    await scene.log.close()


async def test_a_post_that_never_comes_is_not_waited_for_long(scene: Scene) -> None:
    waiting = asyncio.create_task(scene.logbook.posted(ROOM, 0))
    await scene.clock.advance(POST_WAIT - 0.1)
    assert not waiting.done()
    await scene.clock.advance(0.2)
    await waiting
    await scene.log.close()
