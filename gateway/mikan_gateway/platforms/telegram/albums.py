"""Albums: pictures that somebody sent together arrive as messages of their own, and are one message to us.

Nothing says how many there are, so an album is held until no more has come for a moment. So is what comes after it in
its chat, for the order's sake. What is held is not confirmed to Telegram: a crash has it delivered again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from telegram import Update

from mikan_gateway.runtime.clock import Clock

QUIET = 0.6
"""Seconds without another picture after which an album is whole."""
LONGEST = 5.0
"""Seconds that an album is waited for at most."""
MAX_PICTURES = 10
"""More are no album (Bot API "sendMediaGroup")."""


@dataclass(slots=True)
class _Album:
    began: float
    last: float
    pictures: int = 0


class Albums:
    """Sorts updates into those to be passed on and those to be held."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[str, _Album] = {}
        self.held: list[Update] = []
        """In order."""

    def sort(self, fresh: Sequence[Update]) -> list[list[Update]]:
        """What is to be passed on now, in order, of an album all at once; the rest is held until the next call."""
        self._note(fresh)
        ready: dict[str | int, list[Update]] = {}
        held: list[Update] = []
        waiting: set[int] = set()
        for update in [*self.held, *fresh]:
            chat, album = _chat(update), _album(update)
            if chat in waiting or (album is not None and self._is_open(album)):
                waiting.add(chat)
                held.append(update)
            else:
                ready.setdefault(album or update.update_id, []).append(update)
        self.held = held
        self._open = {album: known for album, known in self._open.items() if album not in ready}
        return list(ready.values())

    def _note(self, fresh: Sequence[Update]) -> None:
        now = self._clock.monotonic()
        for update in fresh:
            name = _album(update)
            if name is not None:
                album = self._open.setdefault(name, _Album(now, now))
                album.last, album.pictures = now, album.pictures + 1

    def _is_open(self, name: str) -> bool:
        album, now = self._open[name], self._clock.monotonic()
        return album.pictures < MAX_PICTURES and now < min(album.last + QUIET, album.began + LONGEST)


def _chat(update: Update) -> int:
    chat = update.effective_chat
    return 0 if chat is None else chat.id


def _album(update: Update) -> str | None:
    return update.message.media_group_id if update.message else None
