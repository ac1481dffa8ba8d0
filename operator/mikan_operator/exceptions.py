"""What goes wrong in the operator.

::

    MikanError
    └── OperatorError
        ├── GatewayUnavailable    the gateway did not take or refuse a firing: try again
        ├── LeaseLost             another operator may act now: leave at once
        └── ApiError              the API server's answer, translated once in `mikan_operator.storage`
            ├── NotFound          404
            ├── AlreadyExists     409 on create
            ├── Conflict          409 otherwise: precondition or resourceVersion
            ├── Forbidden         403: RBAC, quota or admission
            │   └── NamespaceTerminating
            ├── Invalid           400 or 422: what we sent is refused
            └── Unavailable       429, 5xx, no connection: try again
"""

from mikan_api.exceptions import MikanError


class OperatorError(MikanError):
    """Base of this package's errors."""


class GatewayUnavailable(OperatorError):
    """The gateway gave no usable answer; what was sent may be sent again."""


class LeaseLost(OperatorError):
    """The Lease could not be renewed in time, or somebody else holds it."""


class ApiError(OperatorError):
    """The API server refused or failed. ``status`` is the HTTP status, 0 where there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class NotFound(ApiError):
    """The object is not there."""


class AlreadyExists(ApiError):
    """The name is taken."""


class Conflict(ApiError):
    """The object is not what the precondition says."""


class Forbidden(ApiError):
    """RBAC, a quota or an admission plugin says no."""


class NamespaceTerminating(Forbidden):
    """The namespace is on its way out; nothing can be made in it."""


class Invalid(ApiError):
    """What was sent does not fit the API."""


class Unavailable(ApiError):
    """No usable answer; the request may be tried again."""
