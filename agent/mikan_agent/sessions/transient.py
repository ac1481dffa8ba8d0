"""A session that no file keeps, for work whose transcript nobody needs afterwards."""

from pathlib import PurePosixPath

from mikan_agent.clock import Clock
from mikan_agent.sessions.form import Header
from mikan_agent.sessions.journal import Loaded
from mikan_agent.sessions.session import Session
from mikan_agent.sessions.tree import SessionTree


class _Memory:
    """Holds what a session writes for as long as the session lives."""

    def __init__(self) -> None:
        self.name = ""
        self.closed = False
        self._content = bytearray()

    def read_at(self, offset: int, length: int) -> bytes:
        return bytes(self._content[offset : offset + length])

    def append(self, lines: bytes, durable: bool) -> int:
        offset = len(self._content)
        self._content += lines
        return offset

    def sync(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True


def transient_session(clock: Clock) -> Session:
    """An empty session in memory alone."""
    memory = _Memory()
    loaded = Loaded(Header("transient", "", ""), SessionTree(memory.read_at), ())
    return Session(memory, loaded, PurePosixPath("/"), clock)
