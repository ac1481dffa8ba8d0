"""What goes wrong with packages.

::

    GatewayError
    └── PackageError            shown to the admin as it is
        ├── VolumeMissing       the packages volume is not mounted here
        ├── FetchFailed         git could not get the repository or the ref
        └── PackageRefused      what came is not safe, too large, or holds nothing that can be used
"""

from mikan_gateway.exceptions import GatewayError


class PackageError(GatewayError):
    """Base of what this package raises."""


class VolumeMissing(PackageError):
    """The packages volume is not mounted here."""


class FetchFailed(PackageError):
    """Git could not get the repository or the ref; the message has git's last words."""


class PackageRefused(PackageError):
    """What came is not safe, too large, or holds nothing that can be used."""
