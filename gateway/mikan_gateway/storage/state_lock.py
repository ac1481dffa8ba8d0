"""One process at a time on the volume that holds an SQLite database: a lock that the kernel takes back from who ends.

So no other gateway can be active while this process lives, whether or not the API server can be asked. It stands beside
the database, since SQLite's own locks are taken and left with each transaction.
"""

import asyncio
import errno
import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path

from sqlalchemy import make_url

from mikan_gateway.ports import Health
from mikan_gateway.runtime.clock import Clock
from mikan_gateway.storage.errors import storage_error

RETRY = 0.5
_MAX_NAME = 253
_UNSUPPORTED = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})

logger = logging.getLogger(__name__)


def lock_file(database_url: str) -> Path | None:
    """Where the lock of a database stands; ``None`` where a server keeps the data."""
    url = make_url(database_url)
    is_file = url.get_backend_name() == "sqlite" and url.database not in {None, "", ":memory:"}
    return Path(f"{url.database}.lock") if is_file else None


class StateLock:
    """An exclusive lock on a file (flock(2)) that also tells who had it last."""

    def __init__(self, file: Path, identity: str, clock: Clock) -> None:
        self._file, self._identity, self._clock = file, identity, clock
        self._descriptor: int | None = None
        self._fault = ""
        self.held = False
        self.predecessor = ""
        """Who had it before, and hence has ended; empty if that is not known."""

    async def take(self) -> None:
        """Wait until it is ours. On a volume that knows no locks it returns without: ``held`` stays false."""
        while fault := await asyncio.to_thread(self._attempt):
            if fault != self._fault:
                logger.warning("the state volume can't be used yet", extra={"reason": fault})
            self._fault = fault
            await self._clock.sleep(RETRY)
        self._fault = ""

    def release(self) -> None:
        """Let another process have it; the end of this one does the same."""
        descriptor, self._descriptor, self.held = self._descriptor, None, False
        if descriptor is not None:
            os.close(descriptor)

    def health(self) -> Health:
        """Whether the volume is ours to use."""
        return Health(not self._fault, self._fault)

    def _attempt(self) -> str:
        """One try; why it can't be had yet."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "another gateway is at work on the state volume"
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                return str(storage_error(error))
            logger.warning("the state volume knows no locks", extra={"reason": error.strerror})
            return ""
        self.held = True
        self.predecessor = _exchange(self._descriptor, self._identity)
        return ""


def _exchange(descriptor: int, identity: str) -> str:
    """Leave our name in the file; the one that stood there."""
    former = os.pread(descriptor, _MAX_NAME, 0).decode(errors="replace")
    with suppress(OSError):  # a full volume: then the next one has to wait for our Lease
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, identity.encode(), 0)
    return former
