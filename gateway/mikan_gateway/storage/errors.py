"""The one place where a driver's errors become ours."""

import errno
import sqlite3

from sqlalchemy.exc import DBAPIError

from mikan_gateway.exceptions import StorageError, StorageFull, StorageUnavailable

_POSTGRES_DISK_FULL = "53100"
"""Class 53 of PostgreSQL's error codes (Appendix A of its manual)."""


def _is_full(cause: BaseException | None) -> bool:
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
    if isinstance(cause, OSError):
        return cause.errno in {errno.ENOSPC, errno.EDQUOT}
    return getattr(cause, "sqlstate", None) == _POSTGRES_DISK_FULL


def storage_error(error: DBAPIError | sqlite3.Error | OSError) -> StorageError:
    """Translate; the message holds no statement and no value, since those are people's messages."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if _is_full(cause):
        return StorageFull(
            "The volume of the gateway's state is full: enlarge it (the claim that the chart calls mikan-state) or "
            "free space; messages are accepted again once there is room."
        )
    if isinstance(cause, sqlite3.Error):
        return StorageUnavailable(f"storage: {getattr(cause, 'sqlite_errorname', type(cause).__name__)}")
    if isinstance(cause, OSError):
        return StorageUnavailable(f"storage: {cause.strerror or type(cause).__name__}")
    return StorageUnavailable(f"storage: {type(cause).__name__} {getattr(cause, 'sqlstate', '') or ''}".rstrip())
