"""The grammar of sandbox modes: ``host``, ``container:<name>``, ``image:<image>``, ``gondolin:default``,
``firecracker:<profile>``, ``cloudflare:<id>`` (architecture section 7).
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from mikan_api.exceptions import InvalidSandboxMode

SANDBOX_MODE_PATTERN = r"^(host|(container|image|gondolin|firecracker|cloudflare):[A-Za-z0-9][A-Za-z0-9._:/@-]*)$"
MAX_SANDBOX_MODE = 512


class SandboxKind(StrEnum):
    """What runs an office's commands."""

    HOST = "host"
    CONTAINER = "container"
    IMAGE = "image"
    GONDOLIN = "gondolin"
    FIRECRACKER = "firecracker"
    CLOUDFLARE = "cloudflare"


@dataclass(frozen=True, slots=True)
class SandboxMode:
    """A parsed mode; ``argument`` is what follows the first colon, empty for ``host``."""

    kind: SandboxKind
    argument: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}" if self.argument else str(self.kind)

    @property
    def mounts_vault_files(self) -> bool:
        """Whether credential files can be given to commands (behaviour "Vault")."""
        return self.kind in {SandboxKind.IMAGE, SandboxKind.GONDOLIN}

    @property
    def per_office(self) -> bool:
        """Whether each office has a sandbox pod of its own."""
        return self.kind in {SandboxKind.IMAGE, SandboxKind.GONDOLIN, SandboxKind.FIRECRACKER}


def parse_sandbox_mode(value: str) -> SandboxMode:
    """Parse a mode.

    Raises:
        InvalidSandboxMode: the message names the value and the forms that exist.
    """
    if len(value) > MAX_SANDBOX_MODE or not re.fullmatch(SANDBOX_MODE_PATTERN, value):
        raise InvalidSandboxMode(
            f"sandbox mode {value[:80]!r} is none of host, container:<name>, image:<image>, gondolin:default, "
            "firecracker:<profile>, cloudflare:<id>"
        )
    kind, _, argument = value.partition(":")
    if kind == SandboxKind.GONDOLIN and argument != "default":
        raise InvalidSandboxMode(f"sandbox mode {value[:80]!r}: gondolin knows the profile 'default' only")
    return SandboxMode(SandboxKind(kind), argument)
