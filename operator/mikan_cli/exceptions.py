"""What the command line raises.

::

    MikanError
    └── CliError               shown to the user with the next step, exit code 1
        ├── ClusterUnusable    kubectl is missing, refused, or finds no release
        ├── ConsoleUnreachable the console does not answer (any more); worth another try
        ├── ConsoleRefused     the console answered that it won't
        ├── NoAnswer           the time is up
        └── PackageUnusable    a package, or the list of them, is not as it must be
"""

from mikan_api.exceptions import MikanError


class CliError(MikanError):
    """Something that the user has to know, and what to do next."""

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step


class ClusterUnusable(CliError):
    """kubectl is missing, refused, or finds no release."""


class ConsoleUnreachable(CliError):
    """The console does not answer; the same may work a moment later."""


class ConsoleRefused(CliError):
    """The console answered that it won't."""


class NoAnswer(CliError):
    """Nothing, or not all of it, came in time."""


class PackageUnusable(CliError):
    """A package can't be had or used, or the list of packages can't be changed."""
