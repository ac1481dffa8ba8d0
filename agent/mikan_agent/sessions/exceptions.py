"""What can go wrong with a session.

::

    StorageError
    └── SessionError
        ├── InvalidHeader     the first line of a session file is no usable header
        ├── InvalidPointer    ``current`` names something that cannot be a session file
        ├── SessionBusy       the file has a writer already
        ├── SessionClosed     an append after `close`
        ├── UnknownEntry      an entry id that the session does not hold
        └── InvalidEntry      a value that JSON cannot carry
"""

from mikan_agent.records.exceptions import StorageError


class SessionError(StorageError):
    """Something about a session file."""


class InvalidHeader(SessionError):
    """The first line of a session file is no usable header. History is never replaced silently."""


class InvalidPointer(SessionError):
    """``sessions/current`` names something that cannot be a session file."""


class SessionBusy(SessionError):
    """The session file has a writer already."""


class SessionClosed(SessionError):
    """An append to a session that was closed."""


class UnknownEntry(SessionError):
    """An entry id that the session does not hold."""


class InvalidEntry(SessionError):
    """A value that JSON cannot carry, such as NaN."""
