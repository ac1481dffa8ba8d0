"""The office's tokens as files; a rotated one is seen because each use reads it again."""

import asyncio
from pathlib import Path
from typing import Protocol

from mikan_agent.exceptions import TokenUnreadable


class TokenSource(Protocol):
    """Gives the bearer token that holds now."""

    async def read(self) -> str:
        """The token.

        Raises:
            TokenUnreadable: there is none.
        """


class TokenFile:
    """A token in a mounted Secret."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> str:
        """The token.

        Raises:
            TokenUnreadable: the file is missing, empty or no single ASCII line.
        """
        try:
            token = (await asyncio.to_thread(self._path.read_text, "ascii")).strip()
        except (OSError, ValueError) as error:
            raise TokenUnreadable(f"token file {self._path}: {type(error).__name__}") from None
        if not token or not token.isprintable():
            raise TokenUnreadable(f"token file {self._path} is empty or not one line")
        return token


async def bearer(source: TokenSource) -> dict[str, str]:
    """The authorization header that holds now."""
    return {"Authorization": f"Bearer {await source.read()}"}
