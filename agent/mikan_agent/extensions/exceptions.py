"""What can go wrong around an extension.

::

    AgentError
    └── ExtensionError
        ├── CapabilityUnavailable   asked for something that this host does not offer
        ├── RegistrationRefused     a tool, command or hook that can't be registered
        ├── WrongResult             a handler returned what its hook has no meaning for
        ├── TookTooLong             a function of an extension did not end in its time
        ├── StillRunning            an earlier function of it has not ended yet
        └── Ended                   a function of it tried to end the process, or its own task
"""

from mikan_agent.exceptions import AgentError


class ExtensionError(AgentError):
    """Base of what this package raises."""


class CapabilityUnavailable(ExtensionError):
    """This host does not offer what the extension asked for; the message names it."""


class RegistrationRefused(ExtensionError, ValueError):
    """A tool, command or hook that can't be registered as it is; the message says why."""


class WrongResult(ExtensionError, TypeError):
    """A handler returned something that its hook has no meaning for."""


class TookTooLong(ExtensionError):
    """A function of an extension did not end in its time."""


class StillRunning(ExtensionError):
    """An earlier function of the same extension runs past its time and blocks its thread."""


class Ended(ExtensionError):
    """A function of an extension raised what would end the process, or cancelled itself."""
