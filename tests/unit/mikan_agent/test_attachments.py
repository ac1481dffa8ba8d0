"""What keeps a file from arriving is noted with its message, whatever it is; the log goes on."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_peers.clock import VirtualClock
from agent_peers.office import entry
from mikan_agent import attachments
from mikan_agent.attachments import Attachments
from mikan_agent.confined import ConfinedDirectory
from mikan_agent.exceptions import TransferFailed
from mikan_agent.transfers import Content
from mikan_api.messaging import Attachment, LogEntry

FILE = Attachment(id="f1", name="1_a.txt", size=5)


class Spool:
    """Gives what it has, each piece after what went wrong before."""

    def __init__(self, *tries: bytes | Exception) -> None:
        self.tries = list(tries)

    @asynccontextmanager
    async def attachment(self, attachment_id: str) -> AsyncIterator[AsyncIterator[bytes]]:
        step = self.tries.pop(0)
        if isinstance(step, Exception):
            raise step
        yield _pieces(step)

    async def upload(self, content: Content) -> str:
        raise AssertionError("nothing is sent here")


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data[:2]
    yield data[2:]


class Place:
    """A directory for attachments, and the clock of who fetches into it."""

    def __init__(self, root: Path, *tries: bytes | Exception) -> None:
        self.path = root / "office" / "attachments"
        self.path.parent.mkdir()
        self.spool, self.clock = Spool(*tries), VirtualClock()
        directory = ConfinedDirectory(self.path.parent).directory("attachments")
        self.attachments = Attachments(directory, self.spool, self.clock)

    async def fetch(self) -> LogEntry:

        task = asyncio.create_task(self.attachments.fetch_all(entry("look", 1, (FILE,))))
        while not task.done():
            await self.clock.advance(1)
            await asyncio.sleep(0.001)
        return task.result()


async def test_a_cut_is_tried_again_and_leaves_nothing_behind(tmp_path: Path) -> None:
    place = Place(tmp_path, TransferFailed("cut", transient=True), b"hel", b"hello")
    assert (await place.fetch()).message.attachments == (FILE,)
    assert {p.name: p.read_bytes() for p in place.path.iterdir()} == {"1_a.txt": b"hello"}
    assert place.attachments.failures() == {}


async def test_a_file_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    place = Place(tmp_path, b"hello")
    await place.fetch()
    assert (await place.fetch()).message.attachments == (FILE,)


@pytest.mark.parametrize(
    ("tries", "reason"),
    [
        ((TransferFailed("it is gone"),), "it is gone"),
        ((b"hell",) * 4, "4 bytes came instead of 5"),
    ],
)
async def test_what_lasts_is_noted_in_the_entry(
    tmp_path: Path, tries: tuple[bytes | Exception, ...], reason: str
) -> None:
    place = Place(tmp_path, *tries)
    (attachment,) = (await place.fetch()).message.attachments
    assert attachment.error == reason
    assert place.attachments.failures() == {"f1": reason}
    assert not place.path.exists() or list(place.path.iterdir()) == []


async def test_a_full_disk_is_noted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(attachments, "_write", full)
    place = Place(tmp_path, b"hello")
    (attachment,) = (await place.fetch()).message.attachments
    assert attachment.error == "No space left on device"
    assert list(place.path.iterdir()) == []


async def test_a_link_in_place_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    place = Place(tmp_path, b"hello")
    (tmp_path / "elsewhere").mkdir()
    place.path.symlink_to(tmp_path / "elsewhere")
    (attachment,) = (await place.fetch()).message.attachments
    assert attachment.error is not None
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_what_we_sent_ourselves_is_not_asked_for(tmp_path: Path) -> None:
    place = Place(tmp_path)
    sent = entry("here it is", 1, (FILE,)).model_copy(update={"from_bot": True})
    assert await place.attachments.fetch_all(sent) == sent
