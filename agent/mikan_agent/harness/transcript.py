"""A session as encoded messages for a model, brought up to date instead of built anew.

A model call needs the whole conversation; only what was said since the last call is converted and encoded. So a turn in
a long session costs what a turn in a short one does, but for sending it.
"""

import json
from collections.abc import Sequence

from mikan_agent.harness.compaction import Tally
from mikan_agent.harness.openai_form import JsonObject, build_messages
from mikan_agent.messages import Message
from mikan_agent.pictures import KEPT, pictures_in
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
        self.tally = Tally()
        """About how many tokens the messages take; of what `encoded` gave last."""

    def encoded(self) -> Sequence[bytes]:
        """Each message as JSON, in OpenAI's form, oldest first. Valid until the next call."""
        fresh: Sequence[Message] | None = self._fresh()
        if fresh is None or self._pictures + sum(map(pictures_in, fresh)) > 2 * KEPT:
            fresh = self._session.context().messages
            self._encoded, self._pictures, self.tally = [], 0, Tally()
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
