"""A session as encoded messages for a model, brought up to date instead of built anew.

A model call needs the whole conversation; only what was said since the last call is converted and encoded. So a turn in
a long session costs what a turn in a short one does, but for sending it.
"""

import json
from collections.abc import Sequence

from mikan_agent.harness.compaction import Tally
from mikan_agent.harness.openai_form import JsonObject, build_messages
from mikan_agent.messages import Message
from mikan_agent.pictures import KEPT, NOT_SHOWN, PictureRoom, pictures_in
from mikan_agent.sessions.context import message_of
from mikan_agent.sessions.session import Session
from mikan_agent.sessions.tree import Entry, EntryId


class Transcript:
    """The messages of one session. To be asked when every tool call of the last answer has its result."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._encoded: list[bytes] = []
        self._last: EntryId | None = None
        """The entry up to which `_encoded` goes."""
        self._pictures = 0
        """Characters of base64 in it. Older pictures go only when there are twice as many as may stay: each time that
        the past changes, a provider has to read it anew."""
        self._sightless: set[str] = set()
        """Models that get no pictures."""
        self._left_out = False
        """Whether `_encoded` is for such a one."""
        self.tally = Tally()
        """About how many tokens the messages take; of what `encoded` gave last."""

    @property
    def has_pictures(self) -> bool:
        """Whether what `encoded` gave last shows any."""
        return self._pictures > 0

    def show_pictures(self, model: str, shown: bool) -> None:
        """Whether a model gets the pictures of this session; every one does at first."""
        (self._sightless.discard if shown else self._sightless.add)(model)

    def encoded(self, model: str = "") -> Sequence[bytes]:
        """Each message as JSON, in OpenAI's form, oldest first, as ``model`` gets them. Valid until the next call."""
        left_out = model in self._sightless
        fresh: Sequence[Message] | None = self._fresh() if left_out == self._left_out else None
        self._left_out = left_out
        if fresh is None or self._pictures + sum(map(pictures_in, fresh)) > 2 * KEPT:
            fresh = self._session.context().messages
            self._encoded, self._pictures, self.tally = [], 0, Tally()
        if left_out:
            fresh = [PictureRoom(0, NOT_SHOWN).fitted(message) for message in fresh]
        self._pictures += sum(map(pictures_in, fresh))
        self._encoded += [encode(message) for message in build_messages(fresh)]
        for message in fresh:
            self.tally = self.tally.with_message(message)
        self._last = self._session.leaf_id
        return self._encoded

    def _fresh(self) -> list[Message] | None:
        """What was said since; ``None`` where the past looks different now (a branch, a compaction, the first call)."""
        leaf, last = self._session.leaf_id, self._last
        if leaf is None or last is None:
            return None
        messages: list[Message] = []
        entry: Entry | None = self._session.get(leaf)
        while entry is not None and entry.id != last:
            if entry.type == "compaction":
                return None
            if (message := message_of(entry)) is not None:
                messages.append(message)
            entry = entry.parent
        return None if entry is None else messages[::-1]


def encode(value: JsonObject) -> bytes:
    """JSON; what no encoding can carry is replaced."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
