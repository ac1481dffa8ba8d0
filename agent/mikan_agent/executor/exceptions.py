"""What can go wrong between a tool and its sandbox.

::

    ExecutorError
    ├── ExecutorUnavailable   no sandbox to talk to: nothing was started
    ├── ConnectionLost        cut after the request was sent: what became of it is unknown
    │   └── ProtocolViolation the other side did not keep to the protocol, or counts do not match
    └── RequestRefused        the sandbox answered, with an error
        ├── FileMissing
        ├── NotPermitted
        ├── NotAFile          a directory, a device, a FIFO
        ├── TooLarge          more than a caller's, our or the system's limit
        ├── NoSpace
        ├── SandboxBusy       out of processes, memory or descriptors; later it may work
        ├── InvalidRequest
        └── OperationFailed   any other error of the system there

A command that fails, is killed or runs out of time is a result, never an exception.
"""


class ExecutorError(Exception):
    """Base of all errors of this package; the message can be shown to the model."""


class ExecutorUnavailable(ExecutorError):
    """No sandbox answers, or not yet. Nothing was started, so trying again is safe."""

    wait = 0.0
    """Seconds in which another try would find the same."""


class NoSandbox(ExecutorUnavailable):
    """There is no pod at all (yet): it can't be running before somebody has made and started it."""

    wait = 1.0


class ConnectionLost(ExecutorError):
    """The stream ended after the request had been sent. A command may have run, in part or whole."""


class ProtocolViolation(ConnectionLost):
    """What arrived is not what the helper sends, or is not all of it."""


class RequestRefused(ExecutorError):
    """The sandbox refused or failed the request and says why."""


class FileMissing(RequestRefused):
    """No such file, directory or program."""


class NotPermitted(RequestRefused):
    """The sandbox's user may not do this, or the filesystem is read-only."""


class NotAFile(RequestRefused):
    """Not a regular file."""


class TooLarge(RequestRefused):
    """More bytes than fit."""


class NoSpace(RequestRefused):
    """The disk or the quota is full."""


class SandboxBusy(RequestRefused):
    """The sandbox has no process, memory or descriptor left."""


class InvalidRequest(RequestRefused):
    """The request itself makes no sense: a bad name, a missing working directory, a negative offset."""


class OperationFailed(RequestRefused):
    """Another error of the system in the sandbox."""


_BY_CODE: dict[str, type[RequestRefused]] = {
    "not_found": FileMissing,
    "not_permitted": NotPermitted,
    "is_directory": NotAFile,
    "not_regular": NotAFile,
    "too_large": TooLarge,
    "no_space": NoSpace,
    "busy": SandboxBusy,
    "invalid": InvalidRequest,
}


def refusal(code: str, message: str) -> RequestRefused:
    """The exception for an error frame (PROTOCOL.md, error codes)."""
    return _BY_CODE.get(code, OperationFailed)(message)
