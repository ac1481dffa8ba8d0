"""What reconciling needs from outside."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from mikan_operator.storage.kinds import Kind, Manifest

Clock = Callable[[], datetime]


class ObjectStore(Protocol):
    """The API server, as `mikan_operator.storage.kubernetes` offers it. Errors: `mikan_operator.exceptions`."""

    async def get(self, kind: Kind, name: str) -> Manifest:
        """Read an object."""
        ...

    async def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Make an object."""
        ...

    async def apply(self, kind: Kind, name: str, fields: Manifest, subresource: str = "") -> Manifest:
        """Server-side apply of our own fields."""
        ...

    async def delete(self, kind: Kind, name: str, uid: str, resource_version: str) -> None:
        """Delete exactly the object that was seen."""
        ...
