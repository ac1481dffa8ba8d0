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
        self._waiting = False
        self.held = False
        self.predecessor = ""
        """Who had it before, and hence has ended; empty if that is not known."""

    async def take(self) -> None:
        """Wait until it is ours. On a volume that knows no locks it returns without: ``held`` stays false.

        Raises:
            StorageError: there can be no such file.
        """
        try:
            self._descriptor = await asyncio.to_thread(os.open, self._file, os.O_RDWR | os.O_CREAT, 0o600)
            while not await asyncio.to_thread(_locked, self._descriptor):
                if not self._waiting:
                    logger.warning("another gateway is at work on the state volume; waiting until it has ended")
                self._waiting = True
                await self._clock.sleep(RETRY)
            self.held = True
            self.predecessor = await asyncio.to_thread(_exchange, self._descriptor, self._identity)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise storage_error(error) from error
            logger.warning("the state volume knows no locks", extra={"reason": error.strerror})
        finally:
            self._waiting = False

    def release(self) -> None:
        """Let another process have it; the end of this one does the same."""
        descriptor, self._descriptor, self.held = self._descriptor, None, False
        if descriptor is not None:
            os.close(descriptor)

    def health(self) -> Health:
        """Whether nobody else is in the way."""
        return Health(not self._waiting, "another gateway is at work on the state volume" if self._waiting else "")


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _exchange(descriptor: int, identity: str) -> str:
    """Leave our name in the file; the one that stood there."""
    former = os.pread(descriptor, _MAX_NAME, 0).decode(errors="replace")
    with suppress(OSError):  # a full volume: then the next one has to wait for our Lease
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, identity.encode(), 0)
    return former
