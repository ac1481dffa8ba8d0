"""A session that no file keeps, for work whose transcript nobody needs afterwards."""

from pathlib import PurePosixPath

from mikan_agent.clock import Clock
from mikan_agent.sessions.journal import Loaded
from mikan_agent.sessions.session import Session
from mikan_agent.sessions.tree import Header, SessionTree


class _NoFile:
    """Takes what a session writes, and forgets it."""

    def __init__(self) -> None:
        self.name = ""
        self.closed = False

    def append(self, lines: bytes, durable: bool) -> None:
        return None

    def sync(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True


def transient_session(clock: Clock) -> Session:
    """An empty session in memory alone."""
    loaded = Loaded(Header("transient", "", ""), SessionTree(), ())
    return Session(_NoFile(), loaded, PurePosixPath("/"), clock)
