"""What goes wrong with a model call, each with the HTTP status and OpenAI error code that a client sees.

::

    GatewayError
    └── CallFailed              a call that gets no answer, with status, code and message
        ├── CallRefused         we refused it before any upstream was asked; the client's fault
        ├── UpstreamFailed      the upstream refused it or could not be reached
        └── UpstreamCut         the upstream's stream ended in the middle of an answer

Messages say what to do and never hold a key or a token.
"""

from mikan_gateway.exceptions import GatewayError


class CallFailed(GatewayError):
    """A call that ends in an error.

    Attributes:
        status: HTTP status, as long as no chunk was sent.
        kind: ``error.type`` of the OpenAI form.
        code: ``error.code`` of the OpenAI form.
        retry_after: what the upstream said of when to try again, as it said it.
    """

    def __init__(self, status: int, kind: str, code: str, message: str, retry_after: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code
        self.message = message
        self.retry_after = retry_after

    def body(self) -> dict[str, object]:
        """The error in the OpenAI form."""
        return {"error": {"message": self.message, "type": self.kind, "param": None, "code": self.code}}


class CallRefused(CallFailed):
    """Refused before any upstream was asked."""


class UpstreamFailed(CallFailed):
    """The upstream refused the call or could not be reached."""


class UpstreamCut(CallFailed):
    """The upstream's stream ended without a finish: what came so far is not an answer."""

    def __init__(self, message: str, code: str = "stream_cut") -> None:
        super().__init__(502, "upstream_cut", code, message)
