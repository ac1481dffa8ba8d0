"""What the agent process raises.

::

    MikanError
    └── AgentError
        ├── TokenUnreadable       the office's token file cannot be used
        ├── GatewayRefused        the gateway will not have us until an admin acts
        ├── ServiceUnreachable    a request to a service of ours had no whole answer
        │   └── ServiceSilent         within the time that it has
        ├── TransferFailed        bytes did not pass between agent and gateway
        ├── RequestFailed         the gateway refused a request, or did not answer
        ├── ToolError             a tool call that the model can correct; its text is the tool's result
        ├── BudgetExceeded        a run's cap was reached: terminal, never retried
        ├── RunawayLoop           the model repeats a call that fails: terminal
        └── ModelError            a model call failed
            ├── ModelUnreachable      nobody answers, or the stream was cut        (transient)
            ├── ModelOverloaded       429, 5xx, overload                           (transient)
            ├── ModelUnknown          no such model is configured
            ├── ModelKeyRefused       the provider, or the models process, refuses the credentials
            ├── SpendingCapReached    the office's cap in the models process
            ├── ContextOverflow       the conversation is longer than the model can read
            └── ModelRequestRefused   anything else that a repeat would not cure
"""

from mikan_api.exceptions import MikanError


class AgentError(MikanError):
    """Base of what this package raises."""


class TokenUnreadable(AgentError):
    """The office's token file is missing or empty. Never holds the token."""


class GatewayRefused(AgentError):
    """The gateway answered the dial with a refusal that only an admin can cure; the message says which."""


class ServiceUnreachable(AgentError):
    """No connection, one that broke, or an answer that makes no sense; the message says which."""


class ServiceSilent(ServiceUnreachable):
    """Nothing came, or could be sent, for too long."""


class TransferFailed(AgentError):
    """Bytes did not pass between agent and gateway; the message says why, for people."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient
        """Whether a repeat may help."""


class RequestFailed(AgentError):
    """The gateway refused what it was asked for, or did not answer in time; the message says why, for people."""


class ToolError(AgentError):
    """A tool call that failed in a way its caller can act on; the message is the result the model reads."""


class BudgetExceeded(AgentError):
    """A run reached a cap; the message says which."""


class RunawayLoop(AgentError):
    """The model repeats a tool call that keeps failing; the message says which."""


class ModelError(AgentError):
    """A model call failed. The message is for logs and people and holds no credential."""

    transient = False
    """Whether the same request may succeed a moment later."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds that the server asked to wait."""


class ModelUnreachable(ModelError):
    """Nobody answers, or the stream was cut."""

    transient = True


class ModelOverloaded(ModelError):
    """Too many requests, or a server that is not well."""

    transient = True


class ModelUnknown(ModelError):
    """No such model is configured."""


class ModelKeyRefused(ModelError):
    """Credentials were refused."""


class SpendingCapReached(ModelError):
    """The office has spent what it may."""


class ContextOverflow(ModelError):
    """The conversation is longer than the model can read."""


class ModelRequestRefused(ModelError):
    """The request was refused for another reason."""
