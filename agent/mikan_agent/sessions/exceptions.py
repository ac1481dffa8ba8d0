"""What can go wrong with a session, beside what can go wrong with any file (`mikan_agent.records.exceptions`).

::

    StorageError
    └── SessionError
        ├── InvalidHeader     the first line of a session file is no usable header
        ├── InvalidPointer    ``current`` names something that cannot be a session file
        └── UnknownEntry      an entry id that the session does not hold
"""

from mikan_agent.records.exceptions import StorageError


class SessionError(StorageError):
    """Something about a session file."""


class InvalidHeader(SessionError):
    """The first line of a session file is no usable header. History is never replaced silently."""


class InvalidPointer(SessionError):
    """``sessions/current`` names something that cannot be a session file."""


class UnknownEntry(SessionError):
    """An entry id that the session does not hold."""
