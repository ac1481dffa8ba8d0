"""Flood control (Bot FAQ "My bot is hitting limits"): off until a test switches it on.

What Telegram says of its limits is not exact, so these are taken at their word: no burst is forgiven.
"""

import math
import time
from collections import deque
from dataclasses import dataclass, field

from servers.telegram.errors import too_many_requests


@dataclass(slots=True)
class Flood:
    """Counts what the bot sends. A refused call counts as well if it came before it was told to."""

    per_chat_second: int | None = None
    per_group_minute: int | None = None
    overall_second: int | None = None
    early: int = 0
    """Calls that came although the bot had been told to wait longer."""
    refused: int = 0
    _times: dict[object, deque[float]] = field(default_factory=dict)
    _closed: dict[int, float] = field(default_factory=dict)
    _forced: dict[int, int] = field(default_factory=dict)
    _all_closed: float = 0.0

    def as_documented(self) -> None:
        """Switch on what the FAQ names: about one message a second in a chat, 20 a minute in a group, 30 in all."""
        self.per_chat_second, self.per_group_minute, self.overall_second = 1, 20, 30

    def close_all(self, seconds: int) -> None:
        """Refuse everything to everybody for so long."""
        self._all_closed = time.monotonic() + seconds

    def refuse_next(self, chat: int, seconds: int) -> None:
        """Refuse the next call to a chat, whatever the limits."""
        self._forced[chat] = seconds

    def admit(self, chat: int, message: bool = True) -> None:
        """Take a call, or refuse it. What shows no message counts for the bot, not for the chat.

        Raises:
            ApiError: 429, with the seconds to wait.
        """
        now = time.monotonic()
        if now < self._all_closed:
            raise self._refusal(chat, self._all_closed - now)
        if now < self._closed.get(chat, 0.0) - 0.02:
            self.early += 1
            raise self._refusal(chat, self._closed[chat] - now)
        if chat in self._forced:
            raise self._refusal(chat, self._forced.pop(chat))
        limits: list[tuple[object, int | None, float]] = [("all", self.overall_second, 1.0)]
        if message:
            limits.append((chat, self.per_chat_second, 1.0))
        if message and chat < 0:
            limits.append((("group", chat), self.per_group_minute, 60.0))
        for key, limit, window in limits:
            times = self._times.setdefault(key, deque())
            while times and times[0] <= now - window:
                times.popleft()
            if limit is not None and len(times) >= limit:
                raise self._refusal(chat, times[0] + window - now)
        for key, _, _ in limits:
            self._times[key].append(now)

    def _refusal(self, chat: int, seconds: float) -> Exception:
        self.refused += 1
        whole = max(1, math.ceil(seconds))
        self._closed[chat] = time.monotonic() + whole
        return too_many_requests(whole)
