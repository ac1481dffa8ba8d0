"""What this package raises, and with it every process at its start.

::

    MikanError
    ├── InvalidValue           a value from outside does not fit its grammar
    │   ├── InvalidAddress     platform or conversation id
    │   ├── InvalidSessionKey  session key, or one that belongs to another conversation
    │   ├── InvalidEvent       scheduled event payload
    │   ├── InvalidSettings    settings document
    │   ├── InvalidSandboxMode sandbox mode string
    │   ├── InvalidPackage     package source
    │   └── InvalidDuration    duration string
    ├── ConfigError            a variable or a mounted file of the boot configuration
    └── TokenRefused           office token that is malformed, forged or for another audience
"""


class MikanError(Exception):
    """Base of everything that mikan raises on purpose."""


class InvalidValue(MikanError, ValueError):
    """A value from outside does not fit its grammar; the message names the value and the rule."""


class InvalidAddress(InvalidValue):
    """A platform or a conversation id that no office can have."""


class InvalidSessionKey(InvalidValue):
    """A session key outside the grammar, or one of another conversation."""


class InvalidEvent(InvalidValue):
    """A scheduled event payload that cannot be read."""


class InvalidSettings(InvalidValue):
    """A settings document that does not fit the schema; the message names each field."""


class InvalidSandboxMode(InvalidValue):
    """A sandbox mode outside the grammar."""


class InvalidPackage(InvalidValue):
    """A package source outside the grammar; never holds what may be a password."""


class InvalidDuration(InvalidValue):
    """A duration that is not like ``90s``, ``15m`` or ``1h30m``."""


class ConfigError(MikanError):
    """A process cannot work as it is configured; one line that names the variable or the file, and never a secret."""


class TokenRefused(MikanError):
    """An office token that is malformed, forged, or meant for another audience. Never holds the token."""
