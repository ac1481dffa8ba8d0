"""What the gateway raises, in two families: a user's fault (`UserFault`) and ours or the world's.

::

    MikanError
    └── GatewayError
        ├── ClusterError             the Kubernetes API server cannot be reached or refused
        │   ├── ClusterConflict      409: it exists already, or is another one now
        │   ├── ClusterNotFound      404
        │   └── ClusterRefused       another 4xx: it won't, for as long as nobody changes something
        ├── StorageError             the database or the spool
        │   ├── StorageUnavailable   cannot be reached; the same call may succeed later
        │   └── StorageFull          no space left
        ├── SpoolRefused             a file that the spool does not take
        ├── NotAuthenticated         a caller of the internal API, with the HTTP status to answer
        ├── AgentRefused             an agent's connection, to be closed with a code
        ├── PlatformError            a chat platform
        │   ├── PlatformUnavailable  try again later
        │   └── PlatformRefused      the platform will never take this
        └── UserFault                to be shown to who asked, as it is
            ├── OfficeConflict       the office's name belongs to another identity
            ├── OfficeDeleting       the office is being deleted
            └── CommandRefused       a command that may not be done here, now or by this person
"""

from mikan_api.exceptions import MikanError


class GatewayError(MikanError):
    """Base of everything that the gateway raises on purpose."""


class ClusterError(GatewayError):
    """The Kubernetes API server cannot be reached or refused a request."""


class ClusterConflict(ClusterError):
    """The object exists already, or is no longer the one that was meant."""


class ClusterNotFound(ClusterError):
    """There is no such object."""


class ClusterRefused(ClusterError):
    """A quota, an admission policy, a rule of the schema or missing rights forbid it."""


class StorageError(GatewayError):
    """The database or the spool failed. Nothing of what was asked has been stored."""


class StorageUnavailable(StorageError):
    """The database cannot be reached; the same call may succeed later."""


class StorageFull(StorageError):
    """There is no space left; the message says what to do."""


class SpoolRefused(GatewayError):
    """A file that the spool does not take, and the HTTP status that says so."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NotAuthenticated(GatewayError):
    """A caller of the internal API is not who it must be; ``status`` answers it. Never holds a token."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AgentRefused(GatewayError):
    """An agent broke the protocol or is no longer the office's agent; its connection closes with ``code``."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        """WebSocket close code, 4000 to 4999 (RFC 6455 section 7.4.2)."""


class PlatformError(GatewayError):
    """Sending to a chat platform failed."""


class PlatformUnavailable(PlatformError):
    """The platform cannot be reached or asks to wait; the same call may succeed later."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds that the platform asked to wait."""


class PlatformRefused(PlatformError):
    """The platform will never take this call (message gone, text too long, no permission)."""


class UserFault(GatewayError):
    """What somebody asked for cannot be had; the message is written for them."""


class OfficeConflict(UserFault):
    """An Office of that name exists with another identity. It is never adopted."""


class OfficeDeleting(UserFault):
    """The Office is being deleted; a new one can be made once it is gone."""


class CommandRefused(UserFault):
    """A command that may not be done here, now, or by this person."""
