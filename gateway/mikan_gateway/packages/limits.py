"""How much a package may be, and take."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one package."""

    files: int = 5_000
    total_bytes: int = 64 * MIB
    file_bytes: int = 16 * MIB
    path_bytes: int = 512
    depth: int = 32
    pack_bytes: int = 128 * MIB
    """Of what git receives and writes."""
    memory_bytes: int = 256 * MIB
    """Of git's own data: the gateway in the same container must not be killed for it."""
    seconds: float = 180.0
    """Of everything that git does for one package."""
